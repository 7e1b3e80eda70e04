"""Files that a command is told to write: whether it can, before it does anything, and what to say if it then cannot."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path


def unwritable(files: Mapping[str, Path | None], *, inputs: Iterable[Path] = ()) -> list[str]:
    """What stands against writing each option's file, in words. No option writes over what the command reads, or over
    another's file.
    """
    taken = {path.resolve(): "the command reads it" for path in inputs}
    found = []
    for option, path in files.items():
        if path is not None:
            if why := taken.get(path.resolve()) or _refused(path):
                found.append(f"{option} {path}: {why}: name another file")
            if path.is_file() or not path.exists():  # what is no file, as /dev/stdout, takes several
                taken.setdefault(path.resolve(), f"{option} writes it")
    return found


def _refused(path: Path) -> str:
    """Why the system would not open it to write. Empty if it would."""
    if path.is_dir():
        return os.strerror(errno.EISDIR)
    if not path.exists() and not path.parent.is_dir():
        return os.strerror(errno.ENOENT)
    asked, rights = (path, os.W_OK) if path.exists() else (path.parent, os.W_OK | os.X_OK)
    return "" if os.access(asked, rights) else os.strerror(errno.EACCES)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError from within names `path`, if it names no file: one of a full disk does not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a results folder: two benchmarks in it would load each other. Raises BadResults if another one holds it."""
    from specdecode.benchmark.results import BadResults
    from specdecode.instance.containers import held

    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / ".lock", patience_s=0))
        except BlockingIOError:
            raise BadResults(f"another benchmark writes to {folder}: wait for it, or choose another --out") from None
        yield
