"""The lists that are written by hand (.in) and the locks that `make lock` writes beside them (.txt)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
INSTALLED_IN = {
    "requirements-build": ".venv",
    "lambda/requirements": ".venv",
    "requirements": ".venv",
    "requirements-dev": ".venv",
    "rehearsal/requirements-cloud": ".rehearsal/cloud",
    "rehearsal/requirements-image": ".rehearsal/image",
}
"""Lock, without its ending -> the environment in which `make test` has it. All of a lock is installed in it."""


def wanted(path: Path) -> Iterator[Requirement]:
    """The requirements of a list, those of the lists that it includes (-r) among them."""
    for line in path.read_text().splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("-r "):
            yield from wanted(path.parent / text[3:])
        elif text and not text.startswith("-c "):
            yield Requirement(text)


def locked(lock: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Package -> version and hashes of every entry of a lock."""
    text = (ROOT / f"{lock}.txt").read_text().replace("\\\n", " ")
    entries = [line.split() for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return {canonicalize_name(pin.split("==")[0]): (pin.split("==")[1], tuple(hashes)) for pin, *hashes in entries}


def installed(environment: str) -> dict[str, Distribution]:
    """Package -> what is installed in `environment`."""
    (folder,) = (ROOT / environment).glob("lib/python3.11/site-packages")
    return {canonicalize_name(found.name): found for found in distributions(path=[str(folder)])}


def closure(lock: str) -> set[str]:
    """All that the list of `lock` draws in here, by what the installed packages say that they need."""
    packages = installed(INSTALLED_IN[lock])
    seen: set[tuple[str, frozenset[str]]] = set()
    open_ends = [(r.name, frozenset(r.extras)) for r in wanted(ROOT / f"{lock}.in")]
    while open_ends:
        name, extras = open_ends.pop()
        node = (canonicalize_name(name), extras)
        if node in seen:
            continue
        seen.add(node)
        for text in packages[node[0]].requires or ():
            needed = Requirement(text)
            if not needed.marker or any(needed.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                open_ends.append((needed.name, frozenset(needed.extras)))
    return {name for name, _ in seen}


def urls(text: str) -> list[str]:
    """Addresses of any kind in a lock."""
    return re.findall(r"\S+://\S+|--(?:index-url|extra-index-url|find-links)\S*", text)
