"""The parts of a comparison that concern one metric or one pair of texts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from specdecode.experiment.model import Frozen
from specdecode.measures.distribution import Count
from specdecode.measures.metrics.base import Direction

BETTER: dict[Direction, Literal["lower", "higher", "neither"]] = {
    Direction.LOWER: "lower",
    Direction.HIGHER: "higher",
    Direction.NONE: "neither",
}


class Verdict(StrEnum):
    """Meaning of the interval of the headline speed-up."""

    PAYS = "pays"
    COSTS = "costs"
    NO_DIFFERENCE = "no relevant difference"
    """The whole interval lies within ±5%: shown to be too small to matter."""
    CANNOT_TELL = "cannot tell"
    """The interval is too wide, or there is none."""
    MIXED = "mixed"
    """Only for a group: its prompt types have different verdicts."""


class MetricInfo(Frozen):
    """How to read one figure."""

    name: str
    label: str
    unit: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9/$% ]{1,40}$")]
    formula: str
    better: Literal["lower", "higher", "neither"]


class Estimate(Frozen):
    """A ratio with its confidence interval; above 1 is better for every metric."""

    metric: str
    ratio: float = Field(gt=0)
    low: float | None = Field(gt=0)
    high: float | None = Field(gt=0)
    n: Count
    method: str


class Difference(Frozen):
    """First difference between two outputs of the same prompt."""

    index: int
    round: int
    at: int
    """Characters that are equal before it."""
    before: str
    """Last characters of the equal part."""
    base: str
    other: str


class Equality(Frozen):
    """Whether both arms wrote the same text."""

    compared: Count
    identical: Count
    from_start: Count = 0
    """Pairs that differ from the first token on. Rounding does not do that to many pairs."""
    expected: bool
    """Decoding is greedy (temperature 0): in theory both arms write the same text."""
    first: Difference | None
    """The earliest difference of all prompts."""
    shortest_common: int | None
    """Characters before the earliest difference."""
