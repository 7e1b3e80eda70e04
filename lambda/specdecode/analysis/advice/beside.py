"""The forecast beside what was measured, and how far off it was."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.analysis.advice.learned import DECODING, STEPS
from specdecode.analysis.advice.payoff import payoff
from specdecode.analysis.results.numbers import times
from specdecode.analysis.results.pairs import Pair
from specdecode.experiment.model import Experiment


def forecast_notes(experiment: Experiment, pairs: Sequence[Pair]) -> list[str]:
    """A note for each measured arm that has a forecast. Empty if the experiment has none."""
    found = []
    for pair in pairs if experiment.forecast else ():
        spec = experiment.variant(pair.variant).speculation
        if spec is None or pair.changes != ("speculation",):
            continue
        told = {
            one.case: tokens
            for one in experiment.forecast
            for k, tokens, _ in one.at
            if (one.draft, k) == (spec.draft.id, spec.num_speculative_tokens)
        }
        measured = {
            case.case: estimate.ratio for case in pair.cases for estimate in case.speedups if estimate.metric == STEPS
        }
        both = [
            f"{case} {told[case]:.2f}, measured {value:.2f} ({abs(told[case] / value - 1.0):.1%} off)"
            for case, value in measured.items()
            if case in told
        ]
        if both:
            found.append(f"Forecast of {pair.variant}: tokens per step {'; '.join(both)}.{_decoding(experiment, pair)}")
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
