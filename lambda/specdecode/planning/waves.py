"""Waves: which arms are on the node together in each round, and in which order they take its devices.

Why it is so: ADR 62.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from specdecode.experiment.base import Frozen, Label, Name
from specdecode.experiment.model import Experiment, Sweep
from specdecode.planning.artifacts import Taken

Pair = frozenset[str]
"""Two arms that are compared with each other."""
MOST_STEPS = 16
"""In 300 simulated sweeps of 22 arms the advisor asked for 14 compiles at most, and for 6 on average."""
MORE_STEPS = 4
"""Steps beyond one for each arm: arms that cannot be told apart are measured again, without a compile."""
FEW_STEPS = 3
"""What a short sweep takes: the low end of the estimate."""


class Arm(Frozen):
    """One variant, served once."""

    variant: Name
    label: Label
    fingerprint: str
    """Fingerprint of its compiled artifact. Empty for a server that already runs."""
    fallback: str = ""
    """Fingerprint of what the node compiles if the artifact of a CPU node does not load. Empty without such a one."""
    wave: int = Field(ge=0)
    round: int = Field(ge=0)
    """The round of the wave. The arm's records have it too."""


class Wave(Frozen):
    """Arms that fit on the node together, all ready before the first request. Start them in this order, each after the
    claim of the one before it is allocated: the scheduler hands out device groups in order, so that a reversed order
    swaps the groups.
    """

    index: int = Field(ge=0)
    round: int = Field(ge=0)
    arms: tuple[Arm, ...] = Field(min_length=1)

    @property
    def served(self) -> tuple[Arm, ...]:
        """The arms that the run serves; empty if they are servers that already run."""
        return tuple(arm for arm in self.arms if arm.fingerprint)


class SweepStep(Frozen):
    """One decision of an adaptive sweep."""

    arm: Name | None
    """Measured next, beside the baseline; None: the sweep ends here."""
    reason: str


class Course(NamedTuple):
    """The waves that a run may take, and how many of them are planned and certain."""

    waves: tuple[Wave, ...]
    planned: int
    """For an adaptive sweep: the waves of its steps so far. Else all."""
    certain: int
    """The planned waves and the fewest that may follow."""
    steps: tuple[SweepStep, ...] = ()
    """Set for an adaptive sweep: its steps so far."""


def make_course(
    experiment: Experiment, artifacts: Mapping[str, Taken], *, size: int, steps: tuple[SweepStep, ...] = ()
) -> Course:
    """The waves, each of at most `size` arms. `artifacts`: of each arm. `steps`: of an adaptive sweep so far; without
    them it begins with an arm that costs most.
    """
    if experiment.sweep is not Sweep.ADAPTIVE:
        waves = _waves(experiment, artifacts, _groups(experiment, size=size))
        return Course(waves, len(waves), len(waves))
    cheap = [name for name, artifact in artifacts.items() if not artifact.is_missing]
    found = [variant.name for variant in experiment.variants if variant.compare_to is not None]
    costly = sorted(found, key=lambda name: name in cheap)
    steps = steps or (SweepStep(arm=costly[0], reason="An arm of the experiment."),)
    baseline = next(variant.name for variant in experiment.variants if variant.compare_to is None)
    waves, few, planned = (
        _waves(experiment, artifacts, _beside(baseline, arms, rounds=experiment.rounds, size=size))
        for arms in (_longest(steps, costly, limit=limit) for limit in (most_steps(experiment), FEW_STEPS, 0))
    )
    return Course(waves, len(planned), len(few), steps)


def most_steps(experiment: Experiment) -> int:
    """Steps after which an adaptive sweep ends in any case."""
    return min(MOST_STEPS, sum(variant.compare_to is not None for variant in experiment.variants) + MORE_STEPS)


def compared(experiment: Experiment) -> tuple[Pair, ...]:
    """The pairs of arms that are compared with each other."""
    return tuple(frozenset({v.name, v.compare_to}) for v in experiment.on_node if v.compare_to)


def first_served(waves: tuple[Wave, ...], wave: Wave) -> tuple[Arm, ...]:
    """The arms of `wave` whose variants no earlier wave serves."""
    before = {arm.variant for earlier in waves[: wave.index] for arm in earlier.arms}
    return tuple(arm for arm in wave.arms if arm.variant not in before)


def last_served(waves: tuple[Wave, ...], wave: Wave) -> tuple[Arm, ...]:
    """The arms of `wave` whose variants no later wave serves."""
    after = {arm.variant for later in waves[wave.index + 1 :] for arm in later.arms}
    return tuple(arm for arm in wave.arms if arm.variant not in after)


def _groups(experiment: Experiment, *, size: int) -> list[tuple[int, list[str]]]:
    """Round and arms of each wave, at most `size` arms together, each with those that it is compared with if possible.
    Every other round goes backwards, so that what drifts with time weighs on all arms alike, and in each the arms have
    other device groups (`pack`). One round of several waves has every baseline once more at its very end (A-B-A), so
    that drift is measured; that wave counts as the next round, with all its arms.
    """
    rounds = experiment.rounds
    packed = pack([v.name for v in experiment.on_node], compared(experiment), size=size, rounds=rounds)
    groups = [(number, group) for number, waves in enumerate(packed) for group in waves]
    if rounds == 1 and len(groups) > 1:
        for baseline in (variant.name for variant in experiment.on_node if variant.compare_to is None):
            last = groups[-1][1]
            if len(last) < size and baseline not in last:
                groups[-1] = (1, [*last, baseline])
            else:
                groups.append((1, [baseline]))
    return groups


def _longest(steps: Sequence[SweepStep], names: Sequence[str], *, limit: int) -> list[str]:
    """The arms so far and, up to `limit` steps, those of `names` that were never measured, then the last again."""
    arms = [step.arm for step in steps if step.arm is not None]
    if len(arms) < len(steps):
        return arms
    limit = max(len(arms), limit)
    arms = [*arms, *(name for name in names if name not in arms)][:limit]
    return arms + arms[-1:] * (limit - len(arms))


def _beside(baseline: str, arms: Sequence[str], *, rounds: int, size: int) -> list[tuple[int, list[str]]]:
    """Round and arms of each wave of an adaptive sweep that takes `arms` in this order. Every step measures the
    baseline beside its arm, in rounds of its own, so that each arm is compared with what the same node did at the same
    time. What a device group costs or gains, it does so to all arms alike, since their order is the same in all first
    rounds; a second round of an arm, in its step or in a later one, has the other order.
    """
    groups: list[tuple[int, list[str]]] = []
    for step, arm in enumerate(arms):
        for number in range(rounds):
            times = arms[:step].count(arm) * rounds + number
            names = [baseline, arm] if times % 2 == 0 else [arm, baseline]
            round_ = step * rounds + number
            groups += [(round_, names)] if size > 1 else [(round_, [name]) for name in names]
    return groups


def _waves(
    experiment: Experiment, artifacts: Mapping[str, Taken], groups: Sequence[tuple[int, list[str]]]
) -> tuple[Wave, ...]:
    waves = []
    for index, (round_, names) in enumerate(groups):
        arms = tuple(
            Arm(
                variant=name,
                label=experiment.variant(name).label,
                fingerprint=artifacts[name].fingerprint,
                fallback=artifacts[name].fallback,
                wave=index,
                round=round_,
            )
            for name in names
        )
        waves.append(Wave(index=index, round=round_, arms=arms))
    return tuple(waves)


def one_by_one(waves: Iterable[Wave]) -> tuple[Wave, ...]:
    """The same arms in the same order, each in a wave of its own."""
    arms = [arm for wave in waves for arm in wave.arms]
    return tuple(
        Wave(index=index, round=arm.round, arms=(arm.model_copy(update={"wave": index}),))
        for index, arm in enumerate(arms)
    )


def pack(names: Sequence[str], pairs: Iterable[Pair], *, size: int, rounds: int) -> list[list[list[str]]]:
    """For each round its waves, each of at most `size` of `names`, in the order in which they are started. A round has
    the fewest waves. As many arms as possible share a wave with the arms that they are compared with; `pairs` that
    could not are together in a later round, as far as there is one. A baseline of more than `rounds` x (`size` - 1)
    arms is never beside all of them. Every other round goes backwards, and an arm starts in a place of its wave that it
    has had least: the scheduler hands out device groups in that order.
    """
    met: dict[str, set[str]] = {name: set() for name in names}
    for one, other in map(sorted, pairs):
        met[one].add(other)
        met[other].add(one)
    to_meet = {name: set(others) for name, others in met.items()}
    held = {name: Counter[int]() for name in names}
    packed = []
    for number in range(rounds):
        groups = [_placed(group, met, held) for group in _grouped(names, met, to_meet, held, size=size)]
        for group in groups:
            for at, name in enumerate(group):
                held[name][at] += 1
                to_meet[name].difference_update(group)
        packed.append(groups[::-1] if number % 2 else groups)
    return packed


def _grouped(
    names: Sequence[str],
    met: Mapping[str, set[str]],
    to_meet: Mapping[str, set[str]],
    held: Mapping[str, Counter[int]],
    *,
    size: int,
) -> list[list[str]]:
    """Arms in groups, by the order of `names`: first those that have somebody `to_meet`. A group is left smaller, as
    far as the fewest waves have places to spare, before it takes an arm from its partner.
    """
    if size == 1:
        return [[name] for name in names]
    order, rest, groups = {name: at for at, name in enumerate(names)}, dict.fromkeys(names), []
    spare = -len(names) % size

    def to_come(name: str) -> int:
        return len(to_meet[name] & rest.keys())

    def suits(name: str, group: list[str]) -> tuple[int, int, int, int]:
        """Rank of a candidate: arms met for the first time, arms still to be met, arms met at all, and other places."""
        new = len(to_meet[name].intersection(group))
        same = sum(not held[name].keys().isdisjoint(held[other]) for other in group)
        return new, to_come(name) if new else -to_come(name), len(met[name].intersection(group)), -same

    while rest:
        group = [max(rest, key=to_come)]
        del rest[group[0]]
        while rest and len(group) < size:
            name = max(rest, key=lambda name: suits(name, group))
            free = size - len(group)
            if suits(name, group)[1] < 0 and free <= spare:
                spare -= free
                break
            group.append(name)
            del rest[name]
        groups.append(sorted(group, key=order.__getitem__))
    return sorted(groups, key=lambda group: order[group[0]])


def _placed(group: list[str], met: Mapping[str, set[str]], held: Mapping[str, Counter[int]]) -> list[str]:
    """The group, rotated so that its arms get places that they had least. Arms with many comparisons count more."""
    turned = [group[at:] + group[:at] for at in range(len(group))]
    return min(turned, key=lambda order: sum(held[name][at] * (1 + len(met[name])) for at, name in enumerate(order)))
