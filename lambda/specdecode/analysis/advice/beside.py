"""The forecast beside what was measured, and how far off it was."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from specdecode.analysis.advice.learned import DECODING
from specdecode.analysis.advice.payoff import payoff
from specdecode.analysis.results.numbers import times
from specdecode.analysis.results.pairs import Pair
from specdecode.experiment.model import Experiment
from specdecode.measures.arm_case import ArmCase


class Beside(NamedTuple):
    """Tokens per step of one arm on one type of prompts."""

    variant: str
    draft: str
    k: int
    case: str
    told: float
    measured: float

    @property
    def off(self) -> float:
        """How far the forecast is from what was measured, as a share of that."""
        return abs(self.told / self.measured - 1.0)


def beside(experiment: Experiment, pairs: Sequence[Pair], arms: Iterable[ArmCase]) -> list[Beside]:
    """Every forecast that an arm has measured: its mean over all steps. Empty if the experiment has none."""
    found: list[Beside] = []
    steps = {(arm.variant, arm.case): sum(one.tokens * one.share for one in arm.steps) for arm in arms if arm.steps}
    for pair in pairs if experiment.forecast else ():
        spec = experiment.variant(pair.variant).speculation
        if spec is None or pair.changes != ("speculation",):
            continue
        draft, k = spec.draft.id, spec.num_speculative_tokens
        told = {
            one.case: tokens for one in experiment.forecast for at, tokens, _ in one.at if (one.draft, at) == (draft, k)
        }
        found += [
            Beside(pair.variant, draft, k, case.case, told[case.case], mean)
            for case in pair.cases
            if case.case in told and (mean := steps.get((pair.variant, case.case)))
        ]
    return found


def forecast_notes(experiment: Experiment, pairs: Sequence[Pair], arms: Iterable[ArmCase]) -> list[str]:
    """A note for each measured arm that has a forecast. Empty if the experiment has none."""
    both, found = beside(experiment, pairs, arms), []
    for pair in pairs:
        if own := [one for one in both if one.variant == pair.variant]:
            worst = max(own, key=lambda one: one.off)
            found.append(
                f"Forecast of {pair.variant}: tokens per step at most {worst.off:.1%} off, over {len(own)} "
                f"type{'s' if len(own) > 1 else ''} of prompts (most in {worst.case}: {worst.told:.2f}, "
                f"measured {worst.measured:.2f}).{_decoding(experiment, pair)}"
            )
    return found


def _decoding(experiment: Experiment, pair: Pair) -> str:
    """The speed-up on all prompts beside its forecast. Empty if either is missing."""
    result = pair.group("all")
    measured = next((one.ratio for one in result.speedups if one.metric == DECODING), None) if result else None
    told = next((one.speedup for one in payoff(experiment).whole.at if one.variant == pair.variant), None)
    if measured is None or told is None:
        return ""
    fits = "within the range" if told.low <= measured <= told.high else "outside the range"
    return (
        f" Decoding on all prompts {times(told.value)} ({times(told.low)} to {times(told.high)}), measured "
        f"{times(measured)}: {fits}."
    )
