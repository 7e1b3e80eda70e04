"""Warnings of a plan: what its waves, its times and the node's terms leave in doubt. Nothing here refuses a run: the
person who pays decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES, Capacity
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.model import Deadlines, Experiment, Sweep
from specdecode.experiment.workload import Level
from specdecode.giving_back import STUCK_GRACE_HOURS
from specdecode.planning.events import HISTORY_LIMIT
from specdecode.planning.ranges import Range
from specdecode.planning.timeline import HEALTHY_SHARE, ON_CPU, LoadTime, Timeline, turns
from specdecode.planning.waves import Wave


def check_precision(experiment: Experiment, waves: Sequence[Wave]) -> list[str]:
    """Warn if a speed-up cannot be settled while it is measured: both arms must be served at the same time."""
    if experiment.workload.requests.precision is None:
        return []
    most = experiment.workload.requests.max
    if max(len(wave.arms) for wave in waves) == 1:
        return [f"workload.requests: no two arms are on the node together, so that none ends early: each sends {most}"]
    against = {variant.name: variant.compare_to for variant in experiment.variants}
    served, alone = set[str](), list[str]()
    for names in ([arm.variant for arm in wave.arms] for wave in waves):
        if not any(against[name] in names for name in names):
            alone += [name for name in names if name not in served]
        served.update(names)
    if not alone:
        return []
    text = "no arm of its comparison is beside it in its first wave, so it cannot end early there and sends"
    return [f"workload.requests: {', '.join(alone)}: {text} {most}"]


def apart(experiment: Experiment, waves: Sequence[Wave]) -> tuple[str, ...]:
    """Variants that are in no wave together with the arm that they are compared with, although arms share the node."""
    together = [{arm.variant for arm in wave.arms} for wave in waves]
    if experiment.sweep is Sweep.ADAPTIVE or max(map(len, together), default=1) == 1:
        return ()
    return tuple(
        v.name for v in experiment.variants if v.compare_to and not any({v.name, v.compare_to} <= w for w in together)
    )


def check_times(timeline: Timeline, deadlines: Deadlines) -> list[str]:
    """Warn if an arm may not be compiled or loaded, or the largest wave not be measured, before its deadline."""
    if not timeline.holds_node:
        return []
    here = {arm.variant: arm.compiling for arm in timeline.arms if arm.missing and not arm.ahead}
    there = {arm.variant: arm.on_cpu for arm in timeline.to_compile if arm.ahead and arm.on_cpu}
    on_cpu = next((step.deadline_minutes // turns(step.works) for step in timeline.steps if step.name == ON_CPU), 0)
    return [
        *_too_long("compile", here, deadlines.compile, share=HEALTHY_SHARE),
        *_too_long("load", {arm.variant: arm.load for arm in timeline.arms}, deadlines.serve, field="serve"),
        *_too_long("compile on a CPU node", there, on_cpu, field="compile", share=HEALTHY_SHARE),
        *_too_much(timeline.loads, deadlines.benchmark),
    ]


def _too_long(
    what: str, minutes: Mapping[str, Range], deadline: int, *, field: str | None = None, share: float = 1
) -> list[str]:
    """One line about all arms that may take longer than `share` of the deadline, with the longest one's figures."""
    limit, field = deadline * share, f"deadlines.{field or what}"
    late = sorted((name for name in minutes if minutes[name].high > limit), key=lambda name: -minutes[name].high)
    if not late:
        return []
    takes = minutes[late[0]]
    arms = late[0] + (f" (and {len(late) - 1} more)" if late[1:] else "")
    took = f"takes at least {takes.low:.0f} min" if takes.low > limit else f"may take {takes.high:.0f} min"
    verdict = "will" if takes.low > limit else "may"
    given = f"{field} is {deadline} min" + (f", of which it has {limit:.0f}" if share < 1 else "")
    fix = f"raise it to {math.ceil(takes.high / share)}"
    return [f"{arms} {took} to {what}; {given}: it {verdict} not finish; {fix}"]


def _too_much(loads: Sequence[LoadTime], limit: int) -> list[str]:
    """One line if the load of the largest wave may take longer than `limit` minutes."""
    takes = sum((load.longest for load in loads), Range())
    if takes.high <= limit:
        return []
    minutes: dict[Level, float] = {}
    for load in loads:
        minutes[load.level] = minutes.get(load.level, 0) + load.longest.high
    cases = sum(load.cases for load in loads if load.level == loads[0].level)
    text = f"{cases} cases of {sum(load.requests for load in loads)} requests"
    fix = "raise deadlines.benchmark, or measure fewer cases, requests or levels"
    if len(minutes) > 1:
        text += f" at {len(minutes)} levels"
        longest = max(minutes, key=minutes.__getitem__)
        fix += f"; the longest is {longest}, up to {minutes[longest]:.0f} min of it"
    if takes.low > limit:
        return [f"{text} take at least {takes.low:.0f} min, the deadline is {limit} min: they will not finish; {fix}"]
    return [f"{text} may take {takes.high:.0f} min, the deadline is {limit} min: they may not finish; {fix}"]


def check_history(events: int) -> list[str]:
    """Warn if the execution's history may not hold the run."""
    if events <= HISTORY_LIMIT:
        return []
    return [
        f"up to {events} history events, and an execution may have {HISTORY_LIMIT}: "
        "split the experiment (fewer variants) or shorten its deadlines"
    ]


def check_backstop(longest_minutes: float, hours: Range, capacity: Capacity) -> list[str]:
    """Warn if the backstop may end the node before the run is over (`longest_minutes` by its deadlines, `hours` by the
    estimate).
    """
    longest, limit = longest_minutes / 60, capacity.backstop_hours
    if longest <= limit:
        return []
    after = f"the backstop ends a node {limit} h after a run got it (longest_run_hours {capacity.longest_run_hours} + "
    after += f"{STUCK_GRACE_HOURS}), and the alarm StuckRun comes before"
    needed = math.ceil(longest) - STUCK_GRACE_HOURS
    fix = f"{deploy_with({'longest_run_hours': str(needed)})}, or shorten its deadlines"
    if hours.low > limit:
        return [f"{after}; the run takes at least {hours.low:.1f} h: it will not finish; {fix}"]
    return [f"{after}; by its deadlines the run may hold it for {longest:.1f} h: it may not finish; {fix}"]


def check_window(hours: Range, capacity: Capacity, *, now: datetime) -> list[str]:
    """Warn if the run may not fit into the Capacity Block. Its last 40 minutes are lost to draining."""
    if capacity.block_end is None or hours.high == 0:
        return []
    start = max(now, capacity.block_start) if capacity.block_start else now
    usable = (capacity.block_end - start - timedelta(minutes=DRAIN_BEFORE_BLOCK_END_MINUTES)).total_seconds() / 3600
    if usable <= 0:
        return [f"the Capacity Block is over for new work ({DRAIN_BEFORE_BLOCK_END_MINUTES} minutes before its end)"]
    window = f"{usable:.1f} h of the Capacity Block are usable (draining begins 40 minutes before its end)"
    if hours.low > usable:
        return [f"{window}, and the run takes at least {hours.low:.1f} h: it will not finish"]
    if hours.high > usable:
        return [f"{window}, and the run may take {hours.high:.1f} h: it may not finish"]
    return []
