"""Which waves of a run are measured, and with which bytes: measured.json of its results folder."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from specdecode.benchmark.results import replace_file

MEASURED = "measured.json"


class MeasuredWaves(BaseModel):
    """What the file says. An earlier version wrote a list of the waves alone."""

    waves: tuple[int, ...] = ()
    """Measured whole."""
    measured_with: dict[str, tuple[str, ...]] = {}
    """As the field of that name of a run's record in the cluster, for folders of the store."""

    @classmethod
    def of(cls, results: Path) -> MeasuredWaves:
        """Empty if there is no such file. Raises ValueError."""
        path = results / MEASURED
        found = json.loads(path.read_bytes()) if path.exists() else []
        return cls.model_validate({"waves": found} if isinstance(found, list) else found)

    def keep(self, results: Path) -> None:
        replace_file(results / MEASURED, self.model_dump_json().encode())
