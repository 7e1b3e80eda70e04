"""Finished folders of the bucket, `models/…/` and `compiled/…/`, as their COMPLETE.json says (ADR 201).

It is written last. It names its folder, so that a copy of another one is found, and each file with size and SHA-256.
The hash of a folder is that of its files' names, sizes and hashes. A start check reads no more of the weights than the
headers of safetensors, so that these have their own hash.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import file_digest, sha256
from io import SEEK_END, BufferedIOBase
from typing import Any, NamedTuple

from specdecode import s3_keys
from specdecode.store import Store
from specdecode.untrusted import below, parse_json

LARGEST = 8 << 20
"""Most bytes of a COMPLETE.json that are read: some 50,000 files."""
SHOWN = 3
"""Most differences of a folder that a message names."""
LENGTH = 8
"""Bytes before a header of safetensors: its length."""
LONGEST_HEADER = 100_000_000
"""Most bytes of such a header, as safetensors itself allows."""


class Damaged(ValueError):
    """A folder is not what its COMPLETE.json says. The message says in what."""


@dataclass(frozen=True)
class FileEntry:
    """One file of a finished folder, as COMPLETE.json lists it."""

    path: str
    size: int
    sha256: str
    header: str = ""
    """SHA-256 of the header of a safetensors file and its length. Empty if it is not known."""


def entry(path: str, file: BufferedIOBase) -> FileEntry:
    """The entry of a file with the bytes of `file`."""
    digest, size, header = file_digest(file, "sha256").hexdigest(), file.seek(0, SEEK_END), ""
    if path.endswith(".safetensors"):
        file.seek(0)
        start = file.read(LENGTH)
        start += file.read(min(int.from_bytes(start, "little"), LONGEST_HEADER))
        header = sha256(start).hexdigest()
    return FileEntry(path, size, digest, header)


def content(files: Iterable[FileEntry]) -> str:
    """SHA-256 of a folder: of the lines `<sha256> <size> <path>`, in the order of the paths."""
    lines = [f"{entry.sha256} {entry.size} {entry.path}\n" for entry in sorted(files, key=lambda entry: entry.path)]
    return sha256("".join(lines).encode()).hexdigest()


def document(prefix: str, files: Iterable[FileEntry], *, about: Mapping[str, Any]) -> str:
    """The text of COMPLETE.json for the folder `prefix`."""
    listed = [{name: value for name, value in asdict(entry).items() if value != ""} for entry in files]
    return json.dumps({"schema_version": 2, "folder": prefix, "files": listed, **about}, indent=1)


def parse(prefix: str, text: bytes) -> list[FileEntry]:
    """The files that the COMPLETE.json of the folder `prefix` lists. Raises Damaged."""
    try:
        read = parse_json(text)
        files = [
            FileEntry(below(str(it["path"])), _size(it["size"]), str(it["sha256"]), str(it.get("header", "")))
            for it in read["files"]
        ]
        folder = read["folder"]
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise Damaged(f"{prefix}{s3_keys.COMPLETE} is not readable: {error}") from error
    if not files:
        raise Damaged(f"{prefix}{s3_keys.COMPLETE} lists no file")
    if len({entry.path for entry in files}) < len(files):
        raise Damaged(f"{prefix}{s3_keys.COMPLETE} lists a file twice")
    if folder != prefix:
        raise Damaged(f"{prefix}{s3_keys.COMPLETE} is that of {str(folder)[:200]}")
    return files


def _size(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"{str(given)[:40]!r} is no size of a file")
    return given


class Found(NamedTuple):
    """What a listing and COMPLETE.json show of a folder. No file is read: whoever serves it does that."""

    content: str | None = None
    """Its hash. None if it is not finished or damaged."""
    damage: str | None = None
    """In what it is not as COMPLETE.json says."""


def find(store: Store, prefix: str) -> Found:
    try:
        seen = stored(store, prefix)
    except Damaged as error:
        return Found(damage=str(error))
    return Found() if seen is None else Found(content=content(seen[1]))


def stored(store: Store, prefix: str, *, root: str = "") -> tuple[bytes, list[FileEntry]] | None:
    """The COMPLETE.json of the folder `prefix`, and the files that it lists. None if it is not finished.

    `root`: prefix of the place that holds the folder. Raises Damaged if the listing of the place does not fit.
    """
    text = store.read(f"{root}{prefix}{s3_keys.COMPLETE}", at_most=LARGEST + 1)
    if text is None:
        return None
    if len(text) > LARGEST:
        raise Damaged(f"{prefix}{s3_keys.COMPLETE} is larger than {LARGEST} bytes")
    files = parse(prefix, text)
    listed = {entry.path: entry.size for entry in files}
    there = {path: size for path, (size, _) in store.listing(root + prefix).items() if path != s3_keys.COMPLETE}
    wrong = sorted({path for path, _ in listed.items() ^ there.items()})
    if wrong:
        shown = ", ".join(path[:200] for path in wrong[:SHOWN]) + (" …" if len(wrong) > SHOWN else "")
        raise Damaged(f"{prefix} is not as its {s3_keys.COMPLETE} says: {shown}")
    return text, files


def set_aside(store: Store, prefix: str) -> None:
    """From now on the folder is not finished. The bucket keeps the old COMPLETE.json as a version for a while."""
    store.delete([prefix + s3_keys.COMPLETE])
