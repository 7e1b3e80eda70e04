"""The course of a run: when each arm was loaded with which case, and how its requests ended."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from specdecode.experiment.base import Frozen
from specdecode.measures.distribution import Count
from specdecode.measures.metrics.formulas import time_per_output_token, ttft
from specdecode.measures.metrics.metric import RequestMetric, load_seconds
from specdecode.records import RequestRecord

SHOWN = 60
"""Most requests of a stretch that are kept: failed ones first (half at most), then every nth of the others."""
ALL_SHOWN = 4000
"""Most requests of a run that are kept one by one; but at least two of each stretch."""


Spans = Mapping[int, tuple[float, float]]
"""Round -> wall clock at which its first and its last request were sent."""


def spans(sent: Iterable[tuple[int, float]]) -> Spans:
    """From the round and time of each request."""
    found: dict[int, tuple[float, float]] = {}
    for number, at in sent:
        first, last = found.get(number, (at, at))
        found[number] = min(first, at), max(last, at)
    return found


def brackets(base: Spans, other: Spans) -> bool:
    """Whether `base` was measured before `other` and once more after it (A-B-A, `planning.waves`). If both took turns,
    and `base` was measured again after another arm, it was not.
    """
    alone = base.keys() == {0, 1} and other.keys() == {0}
    return alone and base[0][1] < other[0][0] and other[0][1] < base[1][0]


class Sent(Frozen):
    """When a request was sent, and how it ended."""

    at_s: float
    """Seconds from the beginning of its stretch until it was sent."""
    took_s: float
    """Seconds until its answer's end, or its failure."""
    failed: str | None = None
    """Kind of error. None: it completed."""
    ttft_s: float | None = None
    """Seconds until its first token. None if it failed."""
    tpot_s: float | None = None
    """Seconds for each output token after the first chunk. None if it failed, or has one chunk."""


class Stretch(Frozen):
    """One arm under the load of one case, in one round, by one process."""

    variant: str
    case: str
    round: Count
    session: Count
    """Number of the measuring process: each wave, resumed run and restarted pod has its own."""
    began: float
    """Wall clock, seconds since the epoch. Processes of a run share no other clock."""
    seconds: float
    """Seconds under load, without the other arms' portions."""
    requests: Count
    failed: Count
    output_tokens: Count = 0
    """0 in a report of an older version."""
    shown: tuple[Sent, ...]
    """Some of its requests, in the order sent. All if they are few."""


def timeline(records: Iterable[RequestRecord]) -> tuple[Stretch, ...]:
    """All stretches of measured load (no warm-up), the earliest first."""
    found: dict[tuple[str, str, int, int], list[RequestRecord]] = defaultdict(list)
    for record in records:
        if not record.warmup:
            found[record.variant, record.case, record.round, record.session].append(record)
    most = max(2, min(SHOWN, ALL_SHOWN // max(1, len(found))))
    stretches = [_stretch(each, most) for each in found.values()]
    return tuple(sorted(stretches, key=lambda each: (each.began, each.variant, each.case)))


def _stretch(records: Sequence[RequestRecord], most: int) -> Stretch:
    first, began = records[0], min(record.started_at for record in records)
    return Stretch(
        variant=first.variant,
        case=first.case,
        round=first.round,
        session=first.session,
        began=began,
        seconds=load_seconds([records]),
        requests=len(records),
        failed=sum(record.error is not None for record in records),
        output_tokens=sum(record.completion_tokens or 0 for record in records if record.error is None),
        shown=tuple(
            Sent(
                at_s=round(record.started_at - began, 4),
                took_s=round(record.end_s, 5),
                failed=record.error.kind.value if record.error else None,
                ttft_s=_value(ttft, record),
                tpot_s=_value(time_per_output_token, record),
            )
            for record in _some(sorted(records, key=lambda record: record.started_at), most)
        ),
    )


def _value(metric: RequestMetric, record: RequestRecord) -> float | None:
    value = None if record.error else metric.known(record)
    return None if value is None else round(value, 6)


def _some(records: Sequence[RequestRecord], most: int) -> list[RequestRecord]:
    if len(records) <= most:
        return list(records)
    failed = [record for record in records if record.error][: most // 2]
    fine = [record for record in records if not record.error]
    every = -(-len(fine) // (most - len(failed)))
    return sorted([*failed, *(fine[::every] if fine else ())], key=lambda record: record.started_at)
