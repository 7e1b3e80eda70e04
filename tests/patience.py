"""How long tests wait for what always comes. A busy machine may take long; only a hang takes longer than this."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 300
"""Seconds. Below `timeout` of pyproject.toml, so that the test that hangs says what it waited for."""
LONG_S = 3600
"""The same for a whole run or rehearsal: minutes of work, on a slow machine with a load of 20. Above `timeout` of
pyproject.toml: a suite has a longer one (`CASE_S` of tools/suites.py)."""
Found = TypeVar("Found")


def until(condition: Callable[[], Found], what: str = "", *, every_s: float = 0.02) -> Found:
    """What `condition` returns, as soon as it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what or f"not within {PATIENCE_S} s"
        time.sleep(every_s)
    return found
