"""Parts of a step. A part that fails must not stop the others."""

from collections.abc import Iterator
from contextlib import contextmanager

from specdecode.escape import clip, line
from specdecode.steps import logs

LONGEST = 300
"""Most characters of a problem."""


class Guarded:
    """Runs parts of a step. An error of one part is logged and kept, and the next part runs all the same."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        """Part -> the error that it raised."""
        self.problems: list[str] = []
        """A line for each problem that a person should know."""

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            logs.LOGGER.exception("a part failed: %s", what)
            self.errors[what] = error
            self.note(f"{what}: {type(error).__name__}: {error}")

    def note(self, problem: str) -> None:
        """Keep a problem that was no exception."""
        self.problems.append(clip(line(problem), LONGEST))
