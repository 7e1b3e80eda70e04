"""Uploads the results of a benchmark to S3, and fetches the earlier results of the same run."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from specdecode.benchmark.place import PlaceError, S3Folder
from specdecode.benchmark.results import Results
from specdecode.records import SERVERS, Servers


@dataclass(kw_only=True)
class Delivery:
    """All methods block (they talk to S3) and return why results could not be stored, in words."""

    results: Results
    upload: str | None
    leads: bool = True
    """True for the one client that writes the facts about the servers, if several clients load together."""
    earlier: Servers | None = None
    """Facts about the servers from other processes of this run (waves, rounds)."""
    _s3: S3Folder | None = field(init=False, default=None)
    _pending: set[Path] = field(init=False, default_factory=set)
    _kept: Servers | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.upload is not None:
            self._s3 = S3Folder(self.upload)

    def fetch_earlier(self, names: Iterable[str]) -> list[str]:
        """Fetch what this run measured before: a restarted pod continues, and other rounds are kept."""
        try:
            for name in (*names, SERVERS):
                self._fetch(name)
        except PlaceError as error:
            return [str(error)]
        path = self.results.folder / SERVERS
        if path.exists():
            try:
                self.earlier = Servers.model_validate_json(path.read_bytes())
            except ValidationError as error:
                return [f"{path} cannot be read, its counters are lost: {error.errors()[0]['msg']}"]
        return []

    def _fetch(self, name: str) -> None:
        """Fetch a file from S3 if it is there and not here."""
        if self._s3 is not None and not (self.results.folder / name).exists():
            content = self._s3.get(name)
            if content is not None:
                self.results.write(name, content)

    def keep(self, servers: Servers) -> None:
        """Write the facts about the servers. They are uploaded with the next block, or at the end."""
        if self.leads and servers != self._kept:
            self._pending.add(self.results.write(SERVERS, servers.model_dump_json(indent=1)))
            self._kept = servers

    def keep_file(self, name: str, content: bytes) -> None:
        """Write a file of the run. It is uploaded with the next block, or at the end."""
        self._pending.add(self.results.write(name, content))

    def block(self, variant: str, case: str) -> list[str]:
        """The load of an arm and case has ended: upload its records."""
        self._pending.add(self.results.raw_path(variant, case))
        return self.finish()

    def finish(self, raw_names: Iterable[str] = ()) -> list[str]:
        """Upload again what failed before; and, if the process must end, the records in `raw_names`, whole or not."""
        self._pending |= {path for name in raw_names if (path := self.results.folder / name).exists()}
        if self._s3 is None:
            return []
        for path in sorted(self._pending):
            try:
                self._s3.put(path.relative_to(self.results.folder).as_posix(), path)
            except PlaceError as error:
                return [str(error)]
            self._pending.discard(path)
        return []
