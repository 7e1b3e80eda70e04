"""Finished folders of the bucket, as the pods leave them."""

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from specdecode.finished import FileEntry, document, entry


def mark(prefix: str, files: Mapping[str, bytes]) -> bytes:
    """The COMPLETE.json of the folder `prefix` with `files`."""
    return document(prefix, entries(files), about={}).encode()


def entries(files: Mapping[str, bytes]) -> list[FileEntry]:
    return [entry(path, BytesIO(body)) for path, body in files.items()]


def stored(prefix: str, files: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
    """The objects of the finished folder `prefix`: `files`, or one that nobody reads."""
    files = files or {"part-0.bin": b"part"}
    return {f"{prefix}COMPLETE.json": mark(prefix, files), **{prefix + path: body for path, body in files.items()}}


def finish(root: Path, *folders: str) -> None:
    """Finish folders below `root` with what lies in them, or with one file that nobody reads."""
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
        if not files_of(root / folder):
            (root / folder / "part-0.bin").write_bytes(b"part")
        (root / folder / "COMPLETE.json").write_bytes(mark(f"{folder}/", files_of(root / folder)))


def deep(folder: Path) -> None:
    """Put a file below more folders than Python recurses into."""
    at = folder
    for _ in range(1500):
        at = at / "d"
        at.mkdir()
    (at / "d").touch()


def files_of(folder: Path) -> dict[str, bytes]:
    """Path below `folder` -> bytes, without COMPLETE.json."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "COMPLETE.json"
    }


def small_model(prefix: str) -> dict[str, bytes]:
    """The files of a model of two layers, which are those of no other folder."""
    shape = {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}
    header = json.dumps({f"layers.{n}.w": shape for n in range(2)}).encode()
    config = json.dumps({"num_hidden_layers": 2, "of": prefix}).encode()
    return {
        "config.json": config,
        "model.safetensors": len(header).to_bytes(8, "little") + header + prefix.encode() * 9,
    }
