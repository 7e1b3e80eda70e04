"""Finished folders of the bucket, as the pods leave them."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from specdecode.finished import FileEntry, document


def mark(prefix: str, files: Mapping[str, bytes] | None = None) -> bytes:
    """The COMPLETE.json of the folder `prefix` with `files`."""
    entries = [FileEntry(path, len(body), hashlib.sha256(body).hexdigest()) for path, body in (files or {}).items()]
    return document(prefix, entries, about={}).encode()


def finish(root: Path, *folders: str) -> None:
    """Finish folders below `root` with what lies in them."""
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
        files = {
            path.relative_to(root / folder).as_posix(): path.read_bytes()
            for path in (root / folder).rglob("*")
            if path.is_file() and path.name != "COMPLETE.json"
        }
        (root / folder / "COMPLETE.json").write_bytes(mark(f"{folder}/", files))
