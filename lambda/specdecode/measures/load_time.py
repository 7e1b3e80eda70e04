"""Duration of the load: throughput, goodput and cost are divided by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from specdecode.records import RequestRecord


def load_seconds(groups: Iterable[Sequence[RequestRecord]]) -> float:
    """Seconds from the first send to the last end of each group (an arm's requests of one case). Groups that overlap
    count once.

    Each measuring process counts alone: the monotonic clocks of nodes, rounds and resumed sessions cannot be compared,
    and a pause between them is no load.
    """
    spans: dict[tuple[int, int, int], list[tuple[float, float]]] = defaultdict(list)
    for group in groups:
        processes: dict[tuple[int, int, int], list[RequestRecord]] = defaultdict(list)
        for record in group:
            processes[record.unit, record.round, record.session].append(record)
        for process, records in processes.items():
            first = min(record.sent_s for record in records)
            spans[process].append((first, max(record.sent_s + record.end_s for record in records)))
    total = 0.0
    for intervals in spans.values():
        reached = float("-inf")
        for start, stop in sorted(intervals):
            total += max(0.0, stop - max(start, reached))
            reached = max(reached, stop)
    return total
