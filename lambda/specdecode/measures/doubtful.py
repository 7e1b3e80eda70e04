"""Whether the load generator itself spoils a load: its times are wrong because it was late, or its clients did not load
at the same time, which no single client's times can show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from specdecode.records import RequestRecord

DOUBTFUL_S = 0.005
"""A chunk whose time may be wrong by more than this is doubtful."""
DOUBTFUL_SHARE = 0.01
"""Share of doubtful chunks, and of requests whose first chunk is doubtful, above which a whole load is doubtful. Below
it 99% of the chunks are not wrong by more than DOUBTFUL_S, which is the tightest bound on a p99 that
docs/benchmarks.md gives; and so is the time to the first token of 99% of the requests."""
HELD_BACK_S = 0.1
"""A request of an open loop that is sent this many seconds after it was due has waited for other requests to end."""
APART_SHARE = 0.05
"""Share of a level's time in which not all clients had requests under way, above which the level is doubtful. Its
throughput is divided by the whole time, so it may be too small by that share. With one client the last requests run
beside fewer others too; every level has that, and it is no doubt of this kind."""


def doubtful(records: Sequence[RequestRecord]) -> bool:
    """Whether the load generator may have changed the times of a load.

    Each client is judged alone, and one late client is enough: the requests of the others must not hide it.
    """
    clients: dict[int, list[RequestRecord]] = defaultdict(list)
    for record in records:
        clients[record.client].append(record)
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


def apart(records: Iterable[RequestRecord]) -> list[str]:
    """A sentence for each arm, case, round and level whose clients did not load together."""
    groups: dict[tuple[str, str, int, str], list[RequestRecord]] = defaultdict(list)
    for record in records:
        if record.clients > 1 and not record.warmup:
            groups[record.variant, record.case, record.round, record.level].append(record)
    found = []
    for (variant, case, round_, level), group in groups.items():
        if why := _why(group):
            place = f"{variant}/{case} at {level}" + (f" in round {round_ + 1}" if round_ else "")
            found.append(f"The load on {place} is doubtful: {why}.")
    return found


def _why(records: Sequence[RequestRecord]) -> str:
    clients = max(record.clients for record in records)
    if missing := sorted(set(range(clients)) - {record.client for record in records}):
        listed = ", ".join(map(str, missing))
        return f"of its {clients} clients there is no record of {listed}"
    share = apart_share(records, clients)
    if share <= APART_SHARE:
        return ""
    return f"for {share:.0%} of its time not all of its {clients} clients were sending"


def apart_share(records: Sequence[RequestRecord], clients: int) -> float:
    """Share of the time in which some but not all of `clients` had requests under way.

    `records` are those of one arm, case, round and level. A client counts from its first send to its last end in a
    session; after a restart it has another session.
    """
    sessions: dict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
    for record in records:
        first, last = sessions[record.session].get(record.client, (record.sent_s, record.sent_s))
        end = record.sent_s + record.end_s
        sessions[record.session][record.client] = min(first, record.sent_s), max(last, end)
    whole = common = 0.0
    for spans in sessions.values():
        begins, ends = [begin for begin, _ in spans.values()], [end for _, end in spans.values()]
        whole += max(ends) - min(begins)
        common += max(0.0, min(ends) - max(begins)) if len(spans) == clients else 0.0
    return 1.0 - common / whole if whole > 0.0 else 0.0
