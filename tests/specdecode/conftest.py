"""Fixtures that several packages' tests share."""

from tests.specdecode.benchmark.virtual import world

__all__ = ["world"]
