"""Adaptive sweeps: arms are chosen one after the other, each measured beside the baseline on the same node."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from specdecode.experiment.engine import Engine
from specdecode.experiment.model import Experiment, Frozen, Name, ServedExperiment
from specdecode.experiment.sizing import arms_at_once
from specdecode.planning.waves import Wave, make_wave

MOST_STEPS = 16
"""In 300 simulated sweeps of 22 arms the advisor asked for 14 compiles at most, and for 6 on average."""
MORE_STEPS = 4
"""Steps beyond one for each arm: arms that cannot be told apart are measured again, without a compile."""
FEW_STEPS = 3
"""What a short sweep takes: the low end of the estimate."""


class SweepStep(Frozen):
    """One decision of the sweep."""

    arm: Name | None
    """Measured next, beside the baseline; None: the sweep ends here."""
    reason: str


class SweepPlan(Frozen):
    """The progress of an adaptive sweep, and its limit."""

    steps: tuple[SweepStep, ...]
    most_steps: int
    waves_to_come: int
    """Waves beyond those planned, if every step is taken."""
    compiles_to_come: int
    """Compiles beyond those of the planned waves, if every step is taken."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms of the steps so far, in order; one that is measured again appears again."""
        return tuple(step.arm for step in self.steps if step.arm is not None)

    @property
    def is_over(self) -> bool:
        return bool(self.steps) and self.steps[-1].arm is None


def first_step(experiment: Experiment, *, last: Collection[str] = ()) -> SweepStep:
    """The first step without advice: the first arm that is not in `last`, if there is one."""
    return SweepStep(arm=_arms(experiment, last)[0], reason="An arm of the experiment.")


def most_steps(experiment: Experiment) -> int:
    """Steps after which the sweep ends in any case."""
    return min(MOST_STEPS, len(_arms(experiment)) + MORE_STEPS)


def longest(experiment: Experiment, steps: Sequence[SweepStep], *, limit: int, last: Collection[str] = ()) -> list[str]:
    """The arms so far and, up to `limit` steps, the arms never measured, then the last again. `last`: arms that come
    after the others that were never measured.
    """
    arms = [step.arm for step in steps if step.arm is not None]
    if len(arms) < len(steps):
        return arms
    limit = max(len(arms), limit)
    rest = [name for name in _arms(experiment, last) if name not in arms]
    arms = [*arms, *rest][:limit]
    return arms + arms[-1:] * (limit - len(arms))


def sweep_waves(experiment: ServedExperiment, engine: Engine, arms: Sequence[str]) -> tuple[Wave, ...]:
    """The waves of a sweep that takes `arms` in this order.

    Every step measures the baseline beside its arm, in rounds of its own, so that each arm is compared with what the
    same node did at the same time. What a device group costs or gains, it does so to all arms alike, since their order
    is the same in all first rounds; a second round of an arm, in its step or in a later one, has the other order.
    """
    baseline = next(variant.name for variant in experiment.variants if variant.compare_to is None)
    size, rounds = arms_at_once(experiment, engine), experiment.rounds
    groups: list[tuple[int, list[str]]] = []
    for step, arm in enumerate(arms):
        for turn in range(rounds):
            times = arms[:step].count(arm) * rounds + turn
            names = [baseline, arm] if times % 2 == 0 else [arm, baseline]
            round_ = step * rounds + turn
            groups += [(round_, names)] if size > 1 else [(round_, [name]) for name in names]
    return tuple(make_wave(experiment, engine, at, round_, names) for at, (round_, names) in enumerate(groups))


def _arms(experiment: Experiment, last: Collection[str] = ()) -> list[str]:
    found = [variant.name for variant in experiment.variants if variant.compare_to is not None]
    return sorted(found, key=lambda name: name in last)
