"""Parts of a step that must not keep one another from being done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from specdecode.escape import clip, line
from specdecode.steps import logs

LONGEST = 300
"""Characters of a problem."""


class Guarded:
    """Runs parts of a step; what one of them raises is logged and kept, and the next one is done all the same."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        """Part -> what it raised."""
        self.problems: list[str] = []
        """A line for each thing that a person should know."""

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            logs.LOGGER.exception("a part failed: %s", what)
            self.errors[what] = error
            self.note(f"{what}: {type(error).__name__}: {error}")

    def note(self, problem: str) -> None:
        """Keep a problem that was no error."""
        self.problems.append(clip(line(problem), LONGEST))
