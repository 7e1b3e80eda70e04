"""The same arm measured twice: over time (A-B-A) and on another device group."""

from collections.abc import Sequence

from specdecode.analysis.results.comparison import Drift
from specdecode.analysis.results.pairs import HEADLINE
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.analysis.statistics.measured import Arms
from specdecode.analysis.statistics.pairing import paired
from specdecode.measures.student import combine


def drifts(
    *,
    variants: Sequence[str],
    cases: Sequence[str],
    arms: Arms,
    device_groups: Sequence[DeviceGroup],
) -> tuple[Drift, ...]:
    """Compare each arm's last round with its first, over all cases that both rounds measured."""
    held_by = {(item.variant, item.round): item for item in device_groups}
    found: list[Drift] = []
    for variant in variants:
        own = [arms[variant, case] for case in cases if (variant, case) in arms]
        rounds = sorted({record.round for each in own for record in each.block.records})
        if len(rounds) < 2:
            continue
        first, last = rounds[0], rounds[-1]
        stats = [stat for each in own if (stat := paired(each, each, HEADLINE, ({first: 1.0}, {last: 1.0})))]
        if not stats:
            continue
        total = combine(stats, [1.0 / len(stats)] * len(stats))
        interval = total.interval()
        held = held_by.get((variant, first)), held_by.get((variant, last))
        moved = held[0] is not None and held[1] is not None and set(held[0].devices) != set(held[1].devices)
        found.append(
            Drift(
                variant=variant,
                cause="time and device group" if moved else "time",
                first=_name(first, held[0]),
                second=_name(last, held[1]),
                ratio=total.ratio,
                low=interval[0] if interval else None,
                high=interval[1] if interval else None,
                shown=bool(interval and not interval[0] <= 1.0 <= interval[1]),
            )
        )
    return tuple(found)


def _name(number: int, held: DeviceGroup | None) -> str:
    if held is None:
        return f"round {number}"
    return f"round {number} on " + (f"group {held.group}" if held.group else ", ".join(held.devices))
