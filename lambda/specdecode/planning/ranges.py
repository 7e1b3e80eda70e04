"""Estimates: a low and a high figure, and how they are written."""

from __future__ import annotations

from specdecode.experiment.base import Frozen


class Range(Frozen):
    """A low and a high estimate."""

    low: float = 0
    high: float = 0

    @classmethod
    def of(cls, pair: tuple[float, float]) -> Range:
        """Of a low and a high figure, as engines' files have them."""
        return cls(low=pair[0], high=pair[1])

    def __add__(self, other: Range) -> Range:
        return Range(low=self.low + other.low, high=self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(low=self.low - other.low, high=self.high - other.high)

    def scaled(self, factor: float) -> Range:
        return Range(low=self.low * factor, high=self.high * factor)


def span(part: Range) -> str:
    """As a reader sees it, with one decimal: `1.1 to 3.9`."""
    return f"{part.low:.1f} to {part.high:.1f}"


def money(part: Range) -> str:
    """`$39 to $139`, with cents below ten dollars."""
    digits = 0 if part.low >= 10 else 2
    return f"${part.low:,.{digits}f} to ${part.high:,.{digits}f}"
