"""Where clients that load together leave notes for each other: a prefix of the bucket, or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from specdecode.benchmark.results import replace_file
from specdecode.benchmark.s3 import S3Error, S3Folder


class Place(Protocol):
    """Stores notes. A note that one client writes is visible to the others at once (S3: strong read-after-write
    consistency). Calls block.
    """

    def get(self, name: str) -> bytes | None:
        """Content of a note. None if there is none. Raises S3Error."""

    def write(self, name: str, content: bytes) -> None:
        """Write a note, whole or not at all. Raises S3Error."""


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
            raise S3Error(f"cannot write {path}: {error}") from None


def place_of(address: str) -> Place:
    """`s3://bucket/prefix/`, or a folder. Raises ValueError."""
    return S3Folder(address) if "://" in address else LocalFolder(Path(address))
