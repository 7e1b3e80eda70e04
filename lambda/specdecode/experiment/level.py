"""The load on a server: a number of requests at a time, or of requests a second."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from specdecode.experiment.base import Frozen

MOST_LEVELS = 12
"""Most levels of one experiment."""
MOST_AT_A_TIME = 4096
PER_STREAM = 2
"""Of several levels each sends so many requests for each one under way, at least: of the first and the last requests of
a level, some run beside fewer others than the level says."""


class Level(Frozen):
    """One load. Closed loop (`concurrency`) or open loop (`rate`): one of the two is set."""

    concurrency: int | None = Field(default=None, ge=1, le=MOST_AT_A_TIME)
    """Requests under way at any time."""
    rate: float | None = Field(default=None, gt=0)
    """Requests sent a second."""

    @property
    def name(self) -> str:
        """In records and file names: `c8`, `r0.5`."""
        return f"r{self.rate:g}" if self.rate is not None else f"c{self.concurrency}"

    @property
    def sorted_name(self) -> str:
        """In CloudWatch's dimension `Load`, whose lists are by letter: `c0008`, `r0000.5`."""
        kind, (whole, dot, rest) = self.name[0], self.name[1:].partition(".")
        return f"{kind}{whole:0>{len(str(MOST_AT_A_TIME))}}{dot}{rest}"

    @property
    def value(self) -> float:
        """Requests at a time, or a second."""
        return self.rate if self.rate is not None else float(self.concurrency or 1)

    def __str__(self) -> str:
        if self.rate is None:
            return f"{self.concurrency} at a time"
        return f"{self.rate:g} request{'' if self.rate == 1 else 's'} a second"


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _each_once(values: tuple[float, ...]) -> tuple[float, ...]:
    if not values:  # not a `min_length`, which a wrong item does not reach: it would be a second problem
        raise ValueError("give one load at least")
    names = [f"{value:g}" for value in values]
    if again := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"each level once: {', '.join(again)} is there several times")
    return values


def _plain(values: tuple[float, ...]) -> Any:
    return values[0] if len(values) == 1 else list(values)


def _schema(kind: str, limits: dict[str, Any]) -> dict[str, Any]:
    one = {"type": kind, **limits}
    many = {"type": "array", "items": one, "minItems": 1, "maxItems": MOST_LEVELS, "uniqueItems": True}
    return {"anyOf": [one, many]}


Concurrencies = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MOST_AT_A_TIME)], ...],
    Field(max_length=MOST_LEVELS),
    BeforeValidator(_listed),
    AfterValidator(_each_once),
    PlainSerializer(_plain),
    WithJsonSchema(_schema("integer", {"minimum": 1, "maximum": MOST_AT_A_TIME})),
]
"""One number or a list of numbers. A single number is written as a number."""

Rates = Annotated[
    tuple[Annotated[float, Field(gt=0)], ...],
    Field(max_length=MOST_LEVELS),
    BeforeValidator(_listed),
    AfterValidator(_each_once),
    PlainSerializer(_plain),
    WithJsonSchema(_schema("number", {"exclusiveMinimum": 0})),
]
"""One number or a list of numbers: requests per second."""
