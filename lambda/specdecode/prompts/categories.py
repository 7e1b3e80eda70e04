"""Categories as files write them, and as names of cases and keys."""

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

NOT_STATED = "prompts"
"""Category of records without one."""
LONGEST = 40
STEM = LONGEST - 8
"""Names that begin with so many equal characters share their numbers, so that no number is tried twice."""


def category_of(value: Any) -> str:
    """A category as a name: `Math Reasoning`, `math_reasoning` -> `math-reasoning`. Raises ValueError."""
    if value is None:
        return NOT_STATED
    if not isinstance(value, str):
        raise ValueError("category is no text")
    return re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-")[:LONGEST].strip("-") or NOT_STATED


Named = tuple[str, str | None]
"""Name of a category, and what the file calls it."""


def told_apart(given: Iterable[Named]) -> dict[Named, str]:
    """Another name for each category of a file that has its name from several: `C++` and `C#` would both be `c`, the
    second is `c-2`. Numbered in the file's order. Case, spaces, hyphens and underscores tell no two apart.
    """
    alike: dict[str, dict[str, list[Named]]] = {}
    for name, label in dict.fromkeys(given):
        spelled = "" if label is None else re.sub(r"[\s_-]+", " ", label.lower()).strip()
        alike.setdefault(name, {}).setdefault(spelled, []).append((name, label))
    taken = set(alike)
    found: dict[Named, str] = {}
    numbered: dict[str, Iterator[int]] = {}
    for name, several in alike.items():
        for at, same in enumerate(several.values() if len(several) > 1 else ()):
            free = numbered.setdefault(name[:STEM], count(2))
            numbered_names = (name[: LONGEST - len(f"-{n}")].rstrip("-.") + f"-{n}" for n in free)
            own = next(other for other in numbered_names if other not in taken) if at else name
            taken.add(own)
            found |= dict.fromkeys(same, own)
    return found
