"""Before a server starts: read the folders that it loads, compare every byte with COMPLETE.json, copy on the way.

A serving pod has no credentials and no bundle: its script holds this very text, which needs Python 3.9 or newer alone
(ADR 201). Its argument is JSON: `local`, where copies go; `streams`, files that are read at once; `folders` with
`name`, `content` (the hash, or ""), `copied`, and `code`, its exit code if one is damaged. Once the script has put
`verified` there, the copies are whole: a container that starts again reads only what it loads through the mount (ADR
213).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

PIECE = 8 << 20


def main(argument: str) -> None:
    given = json.loads(argument)
    kept = Path(given["local"], "verified").is_file()
    for folder in (each for each in given["folders"] if not (kept and each["copied"])):
        target = Path(given["local"], folder["name"]) if folder["copied"] else None
        try:
            found = problems(Path(folder["name"]), folder["content"], streams=given["streams"], target=target)
        except OSError as error:
            sys.exit(f"specdecode: {folder['name']}/ cannot be read or copied: {error}")
        if found:
            shown = "; ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
            sys.stderr.write(f"specdecode: error {folder['code']}: {folder['name']}/ is damaged: {shown}\n")
            sys.exit(folder["code"])


def problems(folder: Path, content: str, *, streams: int, target: Path | None) -> list[str]:
    """In what `folder` is not as it was stored. Its files are copied to `target`, if one is given. Raises OSError."""
    try:
        if not is_regular(folder / "COMPLETE.json"):
            return ["its COMPLETE.json is no regular file"]
        finished = json.loads((folder / "COMPLETE.json").read_text("utf-8"))
        listed = {entry["path"]: entry for entry in finished["files"]}
        lines = [f"{listed[path]['sha256']} {listed[path]['size']} {path}\n" for path in sorted(listed)]
        stored = hashlib.sha256("".join(lines).encode()).hexdigest()
        owner = finished["folder"]
    except FileNotFoundError:
        return ["it has no COMPLETE.json"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        return [f"its COMPLETE.json cannot be read ({error})"]
    if not listed:
        return ["its COMPLETE.json lists no file"]
    if len(listed) < len(finished["files"]):
        return ["its COMPLETE.json lists a file twice"]
    if owner != f"{folder.as_posix()}/":
        return [f"its COMPLETE.json is that of {owner}"]
    if content not in ("", stored):
        return ["its COMPLETE.json lists other files than when this run began"]
    there = {path.relative_to(folder).as_posix() for path in files_of(folder)} - {"COMPLETE.json"}
    wrong = [f"{path} is missing" for path in sorted(listed.keys() - there)]
    wrong += [f"{path} does not belong there" for path in sorted(there - listed.keys())]
    with ThreadPoolExecutor(streams) as pool:
        both = [listed[path] for path in sorted(there & listed.keys())]
        return wrong + [line for line in pool.map(partial(read, folder, target), both) if line]


def files_of(folder: Path) -> list[Path]:
    """What is no folder below `folder`, links among it, however deep: a walk that recurses ends at some depth."""
    found: list[Path] = []
    folders = [folder]
    while folders:
        for path in folders.pop().iterdir():
            (found if path.is_symlink() or not path.is_dir() else folders).append(path)
    return found


def read(folder: Path, target: Path | None, entry: dict[str, Any]) -> str:
    """Read a file, and copy it if there is a target. Returns in what it differs, or ""."""
    if not is_regular(folder / entry["path"]):
        return f"{entry['path']} is no regular file"
    digest, size = hashlib.sha256(), 0
    written = target / entry["path"] if target else Path(os.devnull)
    written.parent.mkdir(parents=True, exist_ok=True)
    with (folder / entry["path"]).open("rb") as source, written.open("wb") as copy:
        while piece := source.read(PIECE):
            digest.update(piece)
            copy.write(piece)
            size += len(piece)
    if size != entry["size"]:
        return f"{entry['path']} has {size} bytes, not {entry['size']}"
    return "" if digest.hexdigest() == entry["sha256"] else f"{entry['path']} differs from its SHA-256"


def is_regular(path: Path) -> bool:
    """Whether it can be read to its end. A pipe or a device may have none. Raises OSError."""
    return stat.S_ISREG(path.stat().st_mode)


if __name__ == "__main__":
    main(sys.argv[1])
