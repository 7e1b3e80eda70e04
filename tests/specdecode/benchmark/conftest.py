"""Virtual time."""

from tests.specdecode.benchmark.virtual import world

__all__ = ["world"]
