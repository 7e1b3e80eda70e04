"""The lists written by hand (.in), the locks that `make lock` writes beside them (.txt), and what is installed.

Why it is so: CONTRIBUTING.md, "Dependencies".
"""

from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    "requirements/build": ".venv",
    "requirements/lambda": ".venv",
    "requirements": ".venv",
    "requirements/dev": ".venv",
    "requirements/cloud": ".rehearsal/cloud",
    "requirements/image": ".rehearsal/image",
    "requirements/audit": ".tools",
}
"""Lock, without its ending -> an environment that has all of it."""
OPTIONAL = frozenset({"requirements/audit"})
"""Locks of environments that `make test` does not have. The bill of materials remembers their licences."""


def wanted(path: Path) -> Iterator[Requirement]:
    """The requirements of a list, with those of the lists that it includes (-r)."""
    for line in path.read_text().splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("-r "):
            yield from wanted(path.parent / text[3:])
        elif text and not text.startswith("-"):
            yield Requirement(text)


def locked(lock: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Package -> version and hashes of every entry of a lock."""
    text = (ROOT / f"{lock}.txt").read_text().replace("\\\n", " ")
    entries = [line.split() for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return {canonicalize_name(pin.split("==")[0]): (pin.split("==")[1], tuple(hashes)) for pin, *hashes in entries}


def installed(lock: str) -> dict[str, Distribution]:
    """Package -> its installed metadata in the environment of `lock`. Empty if there is no such environment."""
    folders = (ROOT / ENVIRONMENT[lock]).glob("lib/python3.11/site-packages")
    return {canonicalize_name(found.name): found for folder in folders for found in distributions(path=[str(folder)])}


def draws_in(package: Distribution, extras: frozenset[str] = frozenset()) -> Iterator[Requirement]:
    """The dependencies that an installed package states, with these extras of it."""
    for text in package.requires or ():
        needed = Requirement(text)
        if not needed.marker or any(needed.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield needed
