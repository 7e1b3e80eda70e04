"""Which arms of a run are measured, which one it is at, and which is best so far: pure functions of its records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import geometric_mean

from specdecode.planning import Plan
from specdecode.runs.ledger import Ledger
from specdecode.runs.state import RunState


@dataclass(frozen=True)
class BestArm:
    """The fastest arm of an adaptive sweep until now. Each was measured on one node: the report has the error."""

    arm: str
    speedup: float
    """Against the baseline beside it; the geometric mean of all loads, as the advisor takes it."""
    loads: int
    """At how many loads it was measured."""


@dataclass(frozen=True)
class ArmsView:
    """The arms of a run on several nodes."""

    measured: tuple[str, ...]
    most: int
    """How many it measures at most. An adaptive sweep may end with fewer."""
    best: BestArm | None = None


def of_units(plan: Plan, state: RunState, going: Iterable[tuple[str, ...]], ledger: Ledger | None) -> ArmsView:
    """`going`: the arms that each unit of now has measured. `ledger`: of an adaptive sweep."""
    done = [*(unit.finished for unit in state.units), *going]
    compared = sum(variant.compare_to is not None for variant in plan.experiment.variants)
    most = compared if plan.sweep is None else min(compared, plan.sweep.most_steps)
    measured = tuple(dict.fromkeys(arm for arms in done for arm in arms))
    return ArmsView(measured=measured, most=most, best=_best(ledger) if ledger else None)


def measured_arms(plan: Plan, state: RunState) -> tuple[str, ...]:
    """The arms of which the run has measured all rounds (of a sweep: all rounds of a step), without baselines."""
    whole: dict[tuple[str, int], bool] = {}
    for wave in plan.waves:
        step = 0 if plan.sweep is None else wave.round // plan.experiment.rounds
        for arm in _compared(plan, wave.index):
            whole[arm, step] = whole.get((arm, step), True) and wave.index in state.measured
    return tuple(dict.fromkeys(arm for (arm, _), done in whole.items() if done))


def arms_now(plan: Plan, state: RunState) -> tuple[str, ...]:
    """The arms of the wave that the run is at, or comes to next, without baselines. None if all is measured."""
    left = (wave.index for wave in plan.waves if wave.index not in {*state.measured, *state.lost})
    return next((arms for index in left if (arms := tuple(_compared(plan, index)))), ())


def arms_line(arms: ArmsView) -> str:
    """`2 of at most 4 measured; best so far sd-k4: 1.62x`."""
    best = ""
    if arms.best:
        over = f" (mean of {arms.best.loads} loads)" if arms.best.loads > 1 else ""
        best = f"; best so far {arms.best.arm}: {arms.best.speedup:.2f}x{over}"
    return f"{len(arms.measured)} of at most {arms.most} measured{best}"


def _compared(plan: Plan, index: int) -> Iterator[str]:
    """The arms of a wave that are compared with another."""
    names = {variant.name for variant in plan.experiment.variants if variant.compare_to is not None}
    return (arm.variant for wave in plan.waves if wave.index == index for arm in wave.arms if arm.variant in names)


def _best(ledger: Ledger) -> BestArm | None:
    seen: dict[str, list[float]] = defaultdict(list)
    loads: dict[str, set[str]] = defaultdict(set)
    for entry in ledger.entries:
        for found in entry.seen if entry.arm is not None else ():
            seen[str(entry.arm)].append(found.speedup)
            loads[str(entry.arm)].add(str(found.level))
    if not seen:
        return None
    arm = max(seen, key=lambda name: geometric_mean(seen[name]))
    return BestArm(arm=arm, speedup=geometric_mean(seen[arm]), loads=len(loads[arm]))
