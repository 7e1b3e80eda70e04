"""Whether the load generator itself was late, so that its times are wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from specdecode.measures.together import apart
from specdecode.records import RequestRecord

DOUBTFUL_S = 0.005
"""A chunk whose time may be wrong by more than this is doubtful."""
DOUBTFUL_SHARE = 0.01
"""Share of doubtful chunks, and of requests whose first chunk is doubtful, above which a whole load is doubtful. Below
it 99% of the chunks are not wrong by more than DOUBTFUL_S, which is the tightest bound on a p99 that
docs/benchmarks.md gives; and so is the time to the first token of 99% of the requests."""
HELD_BACK_S = 0.1
"""A request of an open loop that is sent this many seconds after it was due has waited for other requests to end."""


def doubtful(records: Sequence[RequestRecord]) -> bool:
    """Whether the load generator may have changed the times of a load.

    Each client is judged alone, and one late client is enough: the requests of the others must not hide it.
    """
    clients: dict[tuple[int, int], list[RequestRecord]] = defaultdict(list)
    for record in records:
        clients[record.unit, record.client].append(record)
    return bool(apart(records)) or any(map(_fell_behind, clients.values()))


def _fell_behind(records: Sequence[RequestRecord]) -> bool:
    late = [record for record in records if record.time_doubt_s > DOUBTFUL_S]
    chunks = sum(len(record.chunks) for record in records)
    return (
        sum(map(_doubtful_chunks, late)) > DOUBTFUL_SHARE * chunks
        or sum(map(_first_is_doubtful, late)) > DOUBTFUL_SHARE * len(records)
        or held_back(records) > HELD_BACK_S
    )


def _doubtful_chunks(record: RequestRecord) -> int:
    return len(record.chunks) if record.doubtful_chunks is None else record.doubtful_chunks


def _first_is_doubtful(record: RequestRecord) -> bool:
    """Chunks of one read have the same time, so the first of them may have come before it."""
    times = [chunk.at_s for chunk in record.chunks[:2]]
    return _doubtful_chunks(record) >= len(record.chunks) or (len(times) == 2 and times[0] == times[1])


def held_back(records: Iterable[RequestRecord]) -> float:
    """Longest time, in seconds, that a request of an open loop was sent after it was due."""
    return max((r.sent_s - r.scheduled_s for r in records if r.scheduled_s is not None), default=0.0)


def doubts(records: Iterable[RequestRecord]) -> list[str]:
    """What the user is told of a client that was late: a sentence for each reason; empty if it was not."""
    records = list(records)
    found = []
    if (doubt_s := max((record.time_doubt_s for record in records), default=0.0)) > DOUBTFUL_S:
        found.append(f"this client fell behind; times may be wrong by up to {doubt_s * 1000:.1f} ms")
    if (delay_s := held_back(records)) > HELD_BACK_S:
        found.append(
            f"requests waited up to {delay_s:.1f} s to be sent, as too many were under way; "
            "the wait is in their times (a larger `ulimit -n` allows more)"
        )
    return found
