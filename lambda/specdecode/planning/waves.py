"""Waves: which arms are on the node together, and in which order."""

from __future__ import annotations

from pydantic import Field

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


def make_waves(experiment: Experiment, engine: Engine) -> tuple[Wave, ...]:
    """The waves of an experiment.

    As many arms as fit together are a wave, in the order of the variants. Every other round goes backwards, waves and
    arms, so that the arms of a wave swap their device groups and what drifts with time weighs on all arms alike. One
    round of several waves has every baseline once more at its very end (A-B-A), so that drift is measured; that wave
    counts as the next round, with all its arms.
    """
    size, rounds = experiment.side_by_side, experiment.rounds
    names = [variant.name for variant in experiment.variants]
    forwards = _packed(names, size=size)
    backwards = [group[::-1] for group in reversed(forwards)]
    groups = [(r, group) for r in range(rounds) for group in (backwards if r % 2 else forwards)]
    if rounds == 1 and len(forwards) > 1:
        for baseline in (variant.name for variant in experiment.variants if variant.compare_to is None):
            last = groups[-1][1]
            if len(last) < size and baseline not in last:
                groups[-1] = (1, [*last, baseline])
            else:
                groups.append((1, [baseline]))
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
