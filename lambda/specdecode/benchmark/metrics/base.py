"""What every metric has: a formula, a unit, a direction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from specdecode.benchmark.records import RequestRecord


class Unit(StrEnum):
    SECONDS = "s"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens/s"
    TOKENS_PER_STEP = "tokens/step"
    REQUESTS_PER_SECOND = "requests/s"
    RATIO = "ratio"


class Direction(StrEnum):
    LOWER = "lower is better"
    HIGHER = "higher is better"
    NONE = "no better or worse"


class NoValue(Exception):
    """The metric has no value for this request or block; the message says why. Never replaced by zero."""


@dataclass(frozen=True, kw_only=True)
class Slo:
    """What a good request keeps to, in seconds; None: not asked for."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Block:
    """The measured requests of one arm, case and round, and what is known beside them."""

    records: Sequence[RequestRecord]
    """Without warm-up requests."""
    slo: Slo = field(default_factory=Slo)
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    """From the engine's counters where they can be trusted; None otherwise."""
    speculative_tokens: int | None = None
    """How many tokens a step drafts (k), where known."""

    @property
    def completed(self) -> list[RequestRecord]:
        return [record for record in self.records if record.error is None]

    @property
    def window_s(self) -> float:
        """First send to last end, over each session of the block; a pause between sessions does not count."""
        total = 0.0
        for session in {record.session for record in self.records}:
            of_session = [record for record in self.records if record.session == session]
            first = min(record.sent_s for record in of_session)
            total += max(record.sent_s + record.end_s for record in of_session) - first
        return total


class Metric(ABC):
    """One measured quantity. The class's docstring is its definition; `formula` is the same in one line."""

    tag: ClassVar[str]
    title: ClassVar[str]
    unit: ClassVar[Unit]
    direction: ClassVar[Direction]
    formula: ClassVar[str]


class RequestMetric(Metric):
    """One value for each completed request."""

    @classmethod
    @abstractmethod
    def value(cls, request: RequestRecord) -> float:
        """Raises NoValue."""


class SampleMetric(Metric):
    """Many values for each completed request, one for each token or chunk."""

    @classmethod
    @abstractmethod
    def values(cls, request: RequestRecord) -> list[float]:
        """Raises NoValue."""


class BlockMetric(Metric):
    """One value for a block of requests."""

    @classmethod
    @abstractmethod
    def block_value(cls, block: Block) -> float:
        """Raises NoValue."""


def output_tokens(request: RequestRecord) -> int:
    """The server's count. Raises NoValue."""
    if request.completion_tokens is None:
        raise NoValue(request.usage_problem or "no token count")
    return request.completion_tokens


def waited_s(request: RequestRecord) -> float:
    """How long the request had waited in this client when it was sent (open loop): 0 in a closed loop.

    Counted into every latency, or a client that falls behind its schedule would hide the queue that it causes
    (coordinated omission).
    """
    return 0.0 if request.scheduled_s is None else max(0.0, request.sent_s - request.scheduled_s)
