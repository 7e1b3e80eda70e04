"""Waves: which arms are on the node together, and in which order."""

from __future__ import annotations

from pydantic import Field

from specdecode.experiment.capacity import DEVICES
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import Experiment, Frozen, Label, Name
from specdecode.planning.fingerprint import fingerprint


class Arm(Frozen):
    """One variant, served once."""

    variant: Name
    label: Label
    fingerprint: str
    """Of its compiled artifact; empty for a server that already runs."""
    wave: int = Field(ge=0)
    round: int = Field(ge=0)
    """The wave's round; written into the arm's records."""


class Wave(Frozen):
    """Arms that fit on the node together, all ready before the first request.

    Start them in this order, each after the claim of the one before it is allocated: the scheduler hands out device
    groups in order, so that a reversed order swaps the groups.
    """

    index: int = Field(ge=0)
    round: int = Field(ge=0)
    arms: tuple[Arm, ...] = Field(min_length=1)


def arms_per_wave(experiment: Experiment) -> int:
    """How many arms fit on a trn2.48xlarge; all, where they run elsewhere."""
    if experiment.has_endpoints:
        return len(experiment.variants)
    return max(1, DEVICES // max(1, experiment.serving.devices))


def make_waves(experiment: Experiment, engine: Engine) -> tuple[Wave, ...]:
    """The waves of an experiment.

    All arms fit together: one wave a round, the order of the arms (and so their device groups) reversed in every
    other round. They don't: waves in the order of the variants, and every baseline once more at the very end
    (A-B-A), so that drift between first and last wave is measured. A wave that measures a baseline again counts as
    the next round, with all its arms.
    """
    size = arms_per_wave(experiment)
    names = [variant.name for variant in experiment.variants]
    rounds = experiment.workload.rounds
    if len(names) <= size:
        groups = [(r, names if r % 2 == 0 else names[::-1]) for r in range(rounds)]
    else:
        groups = [(r, group) for r in range(rounds) for group in _packed(names, size=size)]
        for baseline in (variant.name for variant in experiment.variants if variant.compare_to is None):
            last = groups[-1][1]
            if len(last) < size and baseline not in last:
                groups[-1] = (rounds, [*last, baseline])
            else:
                groups.append((rounds, [baseline]))
    return tuple(make_wave(experiment, engine, at, r, group) for at, (r, group) in enumerate(groups))


def first_served(waves: tuple[Wave, ...], wave: Wave) -> tuple[Arm, ...]:
    """The arms of `wave` whose variants no earlier wave serves."""
    before = {arm.variant for earlier in waves[: wave.index] for arm in earlier.arms}
    return tuple(arm for arm in wave.arms if arm.variant not in before)


def _packed(names: list[str], *, size: int) -> list[list[str]]:
    return [names[at : at + size] for at in range(0, len(names), size)]


def make_wave(experiment: Experiment, engine: Engine, index: int, round_: int, names: list[str]) -> Wave:
    """The wave of the variants `names`."""
    variants = [experiment.variant(name) for name in names]
    return Wave(
        index=index,
        round=round_,
        arms=tuple(
            Arm(
                variant=variant.name,
                label=variant.label,
                fingerprint="" if experiment.has_endpoints else fingerprint(experiment, variant, engine),
                wave=index,
                round=round_,
            )
            for variant in variants
        ),
    )
