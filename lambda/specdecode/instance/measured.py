"""Which waves of a run are measured, and with which bytes: measured.json of its results folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ValidationError

from specdecode.benchmark.results import replace_file
from specdecode.untrusted import Unreadable, parse_json, placed, read_file

MEASURED = "measured.json"


class MeasuredWaves(BaseModel):
    """What the file says. An earlier version wrote a list of the waves alone."""

    waves: tuple[int, ...] = ()
    """Measured whole."""
    measured_with: dict[str, tuple[str, ...]] = {}
    """As the field of that name of a run's record in the cluster, for folders of the store."""

    @classmethod
    def of(cls, results: Path) -> MeasuredWaves:
        """Empty if there is no such file. Raises Unreadable."""
        path = results / MEASURED
        try:
            found = parse_json(read_file(path)) if path.exists() else []
            return cls.model_validate({"waves": found} if isinstance(found, list) else found)
        except (Unreadable, ValidationError) as error:
            why = placed(error.errors()[0]) if isinstance(error, ValidationError) else error
            raise Unreadable(f"{path}: {why}; delete it to measure all waves again") from None

    def keep(self, results: Path) -> None:
        replace_file(results / MEASURED, self.model_dump_json().encode())
