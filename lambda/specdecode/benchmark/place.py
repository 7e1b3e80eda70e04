"""Where a benchmark puts its results, and where clients that load together leave notes for each other: a prefix of the
bucket, or a folder. And how the results come there, and back.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Protocol

from pydantic import ValidationError

from specdecode.benchmark.results import Results, replace_file
from specdecode.records import SERVERS, Servers
from specdecode.store import Store, error_code

CONTENT_TYPES = {".jsonl": "application/x-ndjson", ".json": "application/json"}


class PlaceError(Exception):
    """A file was not stored or returned. The message says which and why."""


class Place(Protocol):
    """Stores notes. One that a client writes is visible to the others at once (S3: strong consistency). Calls block."""

    def get(self, name: str) -> bytes | None:
        """Content of a note. None if there is none. Raises PlaceError."""

    def write(self, name: str, content: bytes) -> None:
        """Write a note, whole or not at all. Raises PlaceError."""


class LocalFolder:
    """A folder that all clients see."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, name: str) -> bytes | None:
        path = self._path / name
        return path.read_bytes() if path.is_file() else None

    def write(self, name: str, content: bytes) -> None:
        path = self._path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content)
        except OSError as error:
            raise PlaceError(f"cannot write {path}: {error}") from None


class S3Folder:
    """`s3://bucket/prefix/`. boto3 is imported at the first call, since the import costs half a second of CPU time."""

    def __init__(self, uri: str) -> None:
        scheme, _, rest = uri.partition("://")
        bucket, _, prefix = rest.partition("/")
        if scheme != "s3" or not bucket:
            raise ValueError(f"{uri!r} is not an address: write s3://bucket/prefix/")
        self.bucket = bucket
        self.prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        self.uri = f"s3://{self.bucket}/{self.prefix}"

    @cached_property
    def store(self) -> Store:
        from botocore.config import Config

        from specdecode import aws

        config = Config(connect_timeout=5, retries={"mode": "standard", "max_attempts": 5})
        return Store(s3=aws.client("s3", config=config), bucket=self.bucket)

    def get(self, name: str) -> bytes | None:
        """Content, or None if there is no such file. Raises PlaceError, also for one without s3:ListBucket: S3 then
        refuses a missing file as it refuses one that is there (S3 API reference, GetObject).
        """
        with self._told("read", name):
            return self.store.read(self.prefix + name)

    def lines_below(self, name: str) -> Iterator[tuple[str, bytes]]:
        """Each line of the files of JSON Lines below `name`, with its place. Raises PlaceError."""
        with self._told("read", name):
            for key in self.store.keys(self.prefix + name):
                if key.endswith(".jsonl"):
                    for number, data in enumerate(self.store.lines(key), 1):
                        yield f"{self.store.url(key)} line {number}", data

    def put(self, name: str, path: Path) -> None:
        """Store a file. Raises PlaceError."""
        with path.open("rb") as file:
            self.write(name, file)

    def write(self, name: str, content: bytes | BinaryIO) -> None:
        """Store a few bytes, or what is read while it is sent. Raises PlaceError."""
        kind = CONTENT_TYPES.get(name[name.rfind(".") :], "application/octet-stream")
        with self._told("write", name):
            self.store.write(self.prefix + name, content, content_type=kind)

    @contextmanager
    def _told(self, doing: str, name: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError, RuntimeError) as error:  # the last: a session that nobody renewed
            denied = doing == "read" and error_code(error) == "AccessDenied"
            hint = " (without s3:ListBucket, S3 refuses a missing file too)" if denied else ""
            raise PlaceError(f"cannot {doing} {self.uri}{name}: {error}{hint}") from None


def place_of(address: str) -> Place:
    """`s3://bucket/prefix/`, or a folder. Raises ValueError."""
    return S3Folder(address) if "://" in address else LocalFolder(Path(address))


@dataclass(kw_only=True)
class Delivery:
    """All methods block (they talk to S3). `block` and `finish` return why results were not stored, in words."""

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
        """Fetch what this run measured before: a restarted pod continues, and other rounds are kept. Returns what is
        wrong with the facts about the servers. Raises PlaceError: a load that began without it would write over it.
        """
        for name in (*names, SERVERS):
            self._fetch(name)
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
