"""Waves: which arms are on the node together, and in which order."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from specdecode.experiment.engine import Engine
from specdecode.experiment.model import EndpointExperiment, Experiment, Frozen, Label, Name, ServedExperiment
from specdecode.experiment.sizing import arms_at_once
from specdecode.planning.fingerprint import fingerprint
from specdecode.planning.packing import Pair, pack


class Arm(Frozen):
    """One variant, served once."""

    variant: Name
    label: Label
    fingerprint: str
    """Fingerprint of its compiled artifact. Empty for a server that already runs."""
    fallback: str = ""
    """Fingerprint of the artifact that the node compiles if the one from a CPU node does not load. Empty if no CPU node
    compiles."""
    wave: int = Field(ge=0)
    round: int = Field(ge=0)
    """The round of the wave. The arm's records have it too."""


class Wave(Frozen):
    """Arms that fit on the node together, all ready before the first request.

    Start them in this order, each after the claim of the one before it is allocated: the scheduler hands out device
    groups in order, so that a reversed order swaps the groups.
    """

    index: int = Field(ge=0)
    round: int = Field(ge=0)
    arms: tuple[Arm, ...] = Field(min_length=1)

    @property
    def served(self) -> tuple[Arm, ...]:
        """The arms that the run serves; empty if they are servers that already run."""
        return tuple(arm for arm in self.arms if arm.fingerprint)


def make_waves(experiment: ServedExperiment, engine: Engine) -> tuple[Wave, ...]:
    """The waves of arms that the run serves; `engine` has the sizes of its node.

    As many arms as fit together are a wave, each with the arms that it is compared with if possible.
    """
    groups = _groups(experiment, size=arms_at_once(experiment, engine))
    return tuple(make_wave(experiment, engine, at, r, group) for at, (r, group) in enumerate(groups))


def endpoint_waves(experiment: EndpointExperiment) -> tuple[Wave, ...]:
    """The waves of servers that already run: all of them in each, with the rounds of `make_waves`."""
    groups = _groups(experiment, size=experiment.side_by_side)
    return tuple(_wave(experiment, at, r, dict.fromkeys(group, "")) for at, (r, group) in enumerate(groups))


def _groups(experiment: Experiment, *, size: int) -> list[tuple[int, list[str]]]:
    """Round and arms of each wave, at most `size` arms together.

    Every other round goes backwards, so that what drifts with time weighs on all arms alike, and in each the arms have
    other device groups (`specdecode.planning.packing`). One round of several waves has every baseline once more at its
    very end (A-B-A), so that drift is measured; that wave counts as the next round, with all its arms.
    """
    rounds = experiment.rounds
    packed = pack([v.name for v in experiment.variants], compared(experiment), size=size, rounds=rounds)
    groups = [(turn, group) for turn, waves in enumerate(packed) for group in waves]
    if rounds == 1 and len(groups) > 1:
        for baseline in (variant.name for variant in experiment.variants if variant.compare_to is None):
            last = groups[-1][1]
            if len(last) < size and baseline not in last:
                groups[-1] = (1, [*last, baseline])
            else:
                groups.append((1, [baseline]))
    return groups


def compared(experiment: Experiment) -> tuple[Pair, ...]:
    """The pairs of arms that are compared with each other."""
    return tuple(frozenset({v.name, v.compare_to}) for v in experiment.variants if v.compare_to)


def first_served(waves: tuple[Wave, ...], wave: Wave) -> tuple[Arm, ...]:
    """The arms of `wave` whose variants no earlier wave serves."""
    before = {arm.variant for earlier in waves[: wave.index] for arm in earlier.arms}
    return tuple(arm for arm in wave.arms if arm.variant not in before)


def make_wave(experiment: ServedExperiment, engine: Engine, index: int, round_: int, names: list[str]) -> Wave:
    """The wave of the variants `names`."""
    return _wave(
        experiment,
        index,
        round_,
        {name: fingerprint(experiment, experiment.variant(name), engine) for name in names},
    )


def _wave(experiment: Experiment, index: int, round_: int, fingerprints: Mapping[str, str]) -> Wave:
    """`fingerprints`: of each arm's artifact, in the order of the arms."""
    return Wave(
        index=index,
        round=round_,
        arms=tuple(
            Arm(
                variant=name,
                label=experiment.variant(name).label,
                fingerprint=made,
                wave=index,
                round=round_,
            )
            for name, made in fingerprints.items()
        ),
    )
