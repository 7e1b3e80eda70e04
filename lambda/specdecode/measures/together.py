"""Whether the clients of a level loaded at the same time. No single client's times can show that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from specdecode.records import RequestRecord

APART_SHARE = 0.05
"""Share of a level's time in which not all clients had requests under way, above which the level is doubtful. Its
throughput is divided by the whole time, so it may be too small by that share. With one client the last requests run
beside fewer others too; every level has that, and it is no doubt of this kind."""
Key = tuple[str, str, int, int, str]
"""Variant, case, unit, round and level."""


def apart(records: Iterable[RequestRecord]) -> list[str]:
    """A sentence for each arm, case, round and level whose clients did not load together."""
    groups: dict[Key, list[RequestRecord]] = defaultdict(list)
    for record in records:
        if record.clients > 1 and not record.warmup:
            groups[record.variant, record.case, record.unit, record.round, record.level].append(record)
    found = []
    for (variant, case, unit, round_, level), group in groups.items():
        if why := _why(group):
            place = (
                f"{variant}/{case} at {level}"
                + (f" in round {round_ + 1}" if round_ else "")
                + (f" of unit {unit}" if unit else "")
            )
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
