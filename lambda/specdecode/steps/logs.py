"""Structured logs: one JSON object a line. Each names the run, the step and the request that it belongs to."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

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
