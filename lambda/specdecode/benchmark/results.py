"""A run's folder: it stores records as they come, and reads earlier ones (`records.raw_file`)."""

import os
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from specdecode.experiment.benchmark_spec import BenchmarkSpec, read_specification
from specdecode.records import SERVERS, ErrorKind, RequestRecord, raw_file, read_record
from specdecode.untrusted import Unreadable, WrongInput, placed

SPECIFICATION = "benchmark.json"


class BadResults(WrongInput):
    """The folder does not hold this run's records. The message says what to do."""


def claim_folder(folder: Path, spec: BenchmarkSpec, *, resume: bool) -> BenchmarkSpec:
    """Take `folder` for this benchmark. Returns the specification to run: for a resumed run the stored one.

    Raises BadResults if the folder holds a benchmark and must not be resumed, another benchmark, or other files: a run
    replaces and deletes files of its folder.
    """
    path = folder / SPECIFICATION
    if not path.exists():
        if resume:
            raise BadResults(f"nothing to resume: {folder} holds no benchmark")
        if any(folder.glob("[!.]*")):
            raise BadResults(f"{folder} is not empty: choose a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, spec.model_dump_json(indent=2).encode())
        return spec
    try:
        earlier = read_specification(path)
    except Unreadable as error:
        raise BadResults(f"{error}: choose another --out") from None
    if not resume:
        raise BadResults(f"{folder} holds benchmark {earlier.run_id}: go on with --resume, or choose another --out")
    spec = spec.model_copy(update={"run_id": earlier.run_id})
    written = BenchmarkSpec.model_fields.keys() & earlier.model_fields_set  # an earlier version had fewer
    different = sorted(name for name in written if getattr(spec, name) != getattr(earlier, name))
    if different:
        raise BadResults(f"{folder} holds a benchmark of other settings ({', '.join(different)}): choose another --out")
    if written < BenchmarkSpec.model_fields.keys():
        replace_file(path, spec.model_dump_json(indent=2).encode())
    return spec


def release_folder(folder: Path) -> bool:
    """Release a claimed folder if nothing was measured. Returns whether that was so."""
    if any((folder / "raw").rglob("*.jsonl")):
        return False
    for name in (SPECIFICATION, SERVERS):
        (folder / name).unlink(missing_ok=True)
    return True


class Results:
    """Appends records, each whole before the next is taken. `client`: its number among those that load together."""

    def __init__(self, folder: Path, *, run_id: str, client: int = 0) -> None:
        self.folder = folder
        self._run_id = run_id
        self._client = client

    def raw_path(self, variant: str, case: str) -> Path:
        return self.folder / raw_file(variant, case, self._client)

    def append(self, record: RequestRecord) -> None:
        path = self.raw_path(record.variant, record.case)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(record.model_dump_json().encode() + b"\n")

    def load(
        self,
        variant: str,
        case: str,
        client: int | None = None,
        *,
        again: Callable[[RequestRecord], bool] | None = None,
    ) -> list[RequestRecord]:
        """Records that this client or another one measured before. Raises BadResults.

        A line that a kill cut short is dropped. So are the cancelled requests that earlier versions kept, and those
        that are to be sent `again`.
        """
        path = self.folder / raw_file(variant, case, self._client if client is None else client)
        if not path.exists():
            return []
        records: list[RequestRecord] = []
        dropped: set[int] = set()
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                record = self._read(line, path, number) if line.endswith(b"\n") else None
                if record is None or was_cancelled(record) or (again and again(record)):
                    dropped.add(number)
                else:
                    records.append(record)
        if dropped:
            with path.open("rb") as file:
                kept = b"".join(line for number, line in enumerate(file, 1) if number not in dropped)
            replace_file(path, kept)
        return records

    def _read(self, line: bytes, path: Path, number: int) -> RequestRecord:
        try:
            record = read_record(line)
        except ValueError as error:
            why = placed(error.errors()[0]) if isinstance(error, ValidationError) else error
            raise BadResults(f"{path}, line {number} is no record of this version: {why}") from None
        if record.run_id != self._run_id:
            raise BadResults(f"{path} holds run {record.run_id!r}, not {self._run_id!r}: choose another folder")
        return record

    def read(self, name: str) -> bytes | None:
        """Content of a file of the run. None if it is not there."""
        path = self.folder / name
        return path.read_bytes() if path.is_file() else None

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file of the run whole or not at all."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content.encode() if isinstance(content, str) else content)
        return path


def was_cancelled(record: RequestRecord) -> bool:
    """Whether the benchmark was stopped while the request ran, so that nothing is known of it."""
    return record.error is not None and record.error.kind is ErrorKind.CANCELLED


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: a kill leaves the old content or the new."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)  # noqa: PTH105  (the same thing, and says that it is atomic)
