"""How long a property is tried: a few examples in `make test`, minutes of new ones in `make fuzz`.

    make fuzz MINUTES=10      # each property that long

A failure prints the example that hypothesis shrank it to; it becomes a test of its own beside the code it broke.
"""

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))
BATCH = 200
"""Examples between two looks at the clock."""
tried: dict[str, int] = {}
"""Examples by property, for the summary of a long run."""

RNGS = st.randoms(use_true_random=True)
"""Generators: a failure prints the seed."""
Property = Callable[[], None]


def fuzz(examples: int) -> Callable[[Property], Property]:
    """`examples` fixed ones, or as many new ones as there is time for. Put it above `@given`; no fixtures."""

    def decorate(property_: Property) -> Property:
        name = f"{property_.__module__.rpartition('.')[2]}.{property_.__name__}"
        quiet = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
        if not MINUTES:
            fixed = settings(max_examples=examples, derandomize=True, database=None)
            return settings(fixed, suppress_health_check=quiet)(property_)
        batch = settings(max_examples=BATCH, database=None, suppress_health_check=quiet)(property_)

        @functools.wraps(property_)
        def long() -> None:
            end = time.monotonic() + 60 * MINUTES
            while time.monotonic() < end:
                batch()
                tried[name] = tried.get(name, 0) + BATCH

        del long.__wrapped__  # pytest would take hypothesis' arguments for fixtures
        return long

    return decorate


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Path of every place in a document but the document itself."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@contextmanager
def soon(seconds: float = 60.0) -> Iterator[None]:
    """Fails where the block takes more CPU than any honest or dishonest input may cost."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    assert took < seconds, f"{took:.1f} s of CPU"
