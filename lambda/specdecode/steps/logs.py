"""Structured logs: one JSON object a line. Each names the run, the step and the request that it belongs to.

And parts of a step that must not stop each other: their errors are logged and kept.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from specdecode.escape import clip, line

LOGGER = logging.getLogger("specdecode")


class JsonFormatter(logging.Formatter):
    """Renders a record and its `fields` as one JSON object."""

    def __init__(self, **common: str) -> None:
        super().__init__()
        self._common = common

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": record.getMessage(),
            **self._common,
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            entry["error"] = type(record.exc_info[1]).__name__
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def configure(**common: str) -> None:
    """Send our log records as JSON to stderr, with `common` in every line. Replaces what an earlier call set."""
    stream = logging.StreamHandler()
    stream.setFormatter(JsonFormatter(**common))
    LOGGER.handlers[:] = [stream]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False


def info(message: str, **fields: Any) -> None:
    LOGGER.info(message, extra={"fields": fields})


LONGEST_PROBLEM = 300
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
            LOGGER.exception("a part failed: %s", what)
            self.errors[what] = error
            self.note(f"{what}: {type(error).__name__}: {error}")

    def note(self, problem: str) -> None:
        """Keep a problem that was no exception."""
        self.problems.append(clip(line(problem), LONGEST_PROBLEM))
