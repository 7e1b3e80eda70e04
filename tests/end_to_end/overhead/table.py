"""The orchestration's share of the node's time as a table, compared with a person who does the same steps by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from specdecode.experiment import Capacity
from specdecode.experiment.shapes import DEFAULT

from tests.end_to_end.overhead.shares import Share, Span

ATTENTIVE_S, NOW_AND_THEN_S = 120.0, 450.0
"""Minutes by hand from the end of a step to the beginning of the next: an attentive person takes 2; one who looks every
15 minutes takes half of that time.
"""
HISTORY_LIMIT = 25_000
"""Events after which Step Functions ends an execution."""
WORDS = {
    "AcquireCapacity": "node ready until it is noticed",
    "Compile": "ends of compiles noticed, next begun",
    "Serve": "servers started, ready until noticed",
    "Smoke": "smoke test",
    "Benchmark": "begun, over until noticed",
    "StopArms": "all deleted, seen gone",
    "ReleaseCapacity": "node given back",
}
"""States on the node -> which part of their time is not work."""


def document(shares: Sequence[Share], spans: Sequence[Span], *, wait_scale: float, events: int, worst: int) -> Any:
    """The contents of benchmarks/results/overhead.json. `events`: number in this run's history, as AWS counts them;
    `worst`: the number if every wait lasts until its deadline.
    """
    return {
        "wait_scale": wait_scale,
        "price_per_node_hour": Capacity().of(DEFAULT).price_per_node_hour,
        "events": {"run": events, "worst_case": worst, "limit": HISTORY_LIMIT},
        "by_hand_s": {"attentive": ATTENTIVE_S, "now and then": NOW_AND_THEN_S},
        "shares": [{**asdict(share), "by_hand_moments": _moments(share.state, spans)} for share in shares],
    }


def _moments(state: str, spans: Sequence[Span]) -> int:
    """How often a person who does this by hand must notice an end and begin the next step."""
    if state == "AcquireCapacity":
        return 1
    return sum(span.state == state for span in spans) if state in WORDS else 0


def lines(found: Mapping[str, Any]) -> list[str]:
    """The table in Markdown, and a sentence on the history."""
    price, events, hand = found["price_per_node_hour"], found["events"], found["by_hand_s"]
    rows = [share for share in found["shares"] if share["state"] in WORDS]
    out = [
        "| state | looks | functions | waits, full length | **node time lost** | by hand, attentive | now and then |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = [f"{row['functions_s']:.1f} s", f"{row['waits_s']:.0f} s", f"{row['lost_s']:.0f} s"]
        times += [f"{row['by_hand_moments'] * hand[person] / 60:g} min" for person in ("attentive", "now and then")]
        out.append(f"| {row['state']}: {WORDS[row['state']]} | {row['looks']} | {' | '.join(times)} |")
    lost = sum(row["lost_s"] for row in rows)
    totals = [lost, *(sum(row["by_hand_moments"] for row in rows) * hand[who] for who in ("attentive", "now and then"))]
    cells = " | ".join(f"**{seconds / 60:.1f} min, ${seconds / 3600 * price:.2f}**" for seconds in totals)
    looks = sum(row["looks"] for row in rows)
    spent = sum(row["functions_s"] for row in rows), sum(row["waits_s"] for row in rows)
    out.append(f"| **sum** | {looks} | {spent[0]:.1f} s | {spent[1]:.0f} s | {cells} |")
    out += [
        "",
        f"The run's history has {events['run']:,} events. One in which every wait lasts until its deadline, after a "
        f"day in the queue, has {events['worst_case']:,}; plans are held below 20,000, and Step Functions ends an "
        f"execution at {events['limit']:,}.",
    ]
    return out
