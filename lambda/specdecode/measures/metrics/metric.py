"""What every metric has: a formula, a unit, a direction; and the requests that it is computed from."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import cleandoc
from typing import Generic, TypeVar

from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Slo
from specdecode.measures.distribution import Often
from specdecode.records import Drafted, RequestRecord

Of = TypeVar("Of")
Value = TypeVar("Value")


class Unit(StrEnum):
    SECONDS = "s"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens/s"
    TOKENS_PER_STEP = "tokens/step"
    REQUESTS_PER_SECOND = "requests/s"
    RATIO = "ratio"


class Direction(StrEnum):
    """Whether a lower or a higher value of a metric is better, or neither."""

    LOWER = "lower"
    HIGHER = "higher"
    NONE = "neither"


class NoValue(Exception):
    """The metric has no value for this request or block; the message says why. Never replaced by zero."""


class Impossible(NoValue):
    """The figure would be one that no server can reach. It is not shown, and the report says so in a note."""


def load_seconds(groups: Iterable[Sequence[RequestRecord]]) -> float:
    """Seconds from the first send to the last end of each portion of a group (an arm's requests of one case), added up:
    another arm's portion is no load of this one. Portions that overlap count once. Each measuring process counts alone:
    the monotonic clocks of rounds and resumed sessions cannot be compared, and a pause between them is no load.
    """
    spans: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for group in groups:
        portions: dict[tuple[int, int, str, int], list[RequestRecord]] = defaultdict(list)
        for record in group:
            portions[record.round, record.session, record.level, record.portion].append(record)
        for (round_, session, _, _), records in portions.items():
            first = min(record.sent_s for record in records)
            spans[round_, session].append((first, max(record.sent_s + record.end_s for record in records)))
    total = 0.0
    for intervals in spans.values():
        reached = float("-inf")
        for start, stop in sorted(intervals):
            total += max(0.0, stop - max(start, reached))
            reached = max(reached, stop)
    return total


@dataclass(frozen=True, kw_only=True)
class Block:
    """Measured requests of one arm, case and round, and other facts about them."""

    records: Sequence[RequestRecord]
    """Without warm-up requests."""
    slo: Slo = field(default_factory=Slo)
    drafted: Drafted | None = None
    """From the engine's counters or the answers themselves. None if neither gives a count."""
    k: int | None = None
    """Tokens that a step drafts: 0 without speculation, None if it is not known."""
    most: MostTokens = MostTokens.K_PLUS_1
    """Most tokens that a step of the engine yields with that k."""
    rate: float | None = None
    """Requests a second, of an open loop."""

    @property
    def verified(self) -> int | None:
        """Drafts that a step verifies. None if k is not known."""
        return None if self.k is None else self.most.verified(self.k)

    @property
    def completed(self) -> list[RequestRecord]:
        return [record for record in self.records if record.error is None]

    @property
    def load_s(self) -> float:
        """How long the load took, in seconds."""
        return load_seconds([self.records])

    @property
    def sending_s(self) -> float | None:
        """How long an open loop sends at its rate, whatever the server does. None of a closed loop, whose server sets
        the pace. Conversations arrive by so much slower that the rate is that of their requests.
        """
        return None if self.rate is None else len(self.records) / self.rate


@dataclass(frozen=True)
class Metric(Generic[Of, Value]):
    """One measured quantity: its names, unit and formula over `Of`."""

    tag: str
    title: str
    unit: Unit
    direction: Direction
    formula: str
    definition: str
    value: Callable[[Of], Value]
    """In the metric's unit. Raises NoValue."""

    def known(self, of: Of) -> Value | None:
        """The value, or None if there is none."""
        with suppress(NoValue):
            return self.value(of)
        return None


RequestMetric = Metric[RequestRecord, float]
"""One value for each completed request."""
SampleMetric = Metric[RequestRecord, list[Often]]
"""Many values for each completed request, in the order of its tokens or chunks."""
BlockMetric = Metric[Block, float]
"""One value for a block of requests."""


def metric(
    title: str, unit: Unit, direction: Direction, formula: str
) -> Callable[[Callable[[Of], Value]], Metric[Of, Value]]:
    """Makes a metric of its formula as a function, whose name is the tag and whose docstring is the definition."""

    def made(value: Callable[[Of], Value]) -> Metric[Of, Value]:
        return Metric(value.__name__, title, unit, direction, formula, cleandoc(value.__doc__ or ""), value)

    return made


def tokens_of(request: RequestRecord) -> int:
    """The server's count. Raises NoValue."""
    if request.completion_tokens is None:
        raise NoValue(request.usage_problem or "no token count")
    return request.completion_tokens


def first_chunk_tokens(request: RequestRecord, tokens: int) -> int:
    """Tokens of the first chunk: as the server counts them, else its share of the answer's characters, at least one.
    The first chunk's time is the time of all its tokens. So they are left out of every time per token after it: the
    pace must not depend on how many tokens the first chunk happens to hold.
    """
    first = request.chunks[0]
    if first.tokens is not None:
        return first.tokens
    written = sum(chunk.chars for chunk in request.chunks)
    return max(1, round(tokens * first.chars / written)) if written else 1


def waited_s(request: RequestRecord) -> float:
    """Seconds that the request waited in this client before it was sent (open loop). 0 in a closed loop. Every latency
    includes them. Else a client that falls behind its schedule would hide the queue that it causes (coordinated
    omission).
    """
    return 0.0 if request.scheduled_s is None else max(0.0, request.sent_s - request.scheduled_s)
