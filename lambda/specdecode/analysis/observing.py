"""What the advisor learns from a comparison: speed-up of decoding, tokens per step, and how sure."""

from __future__ import annotations

import math

from specdecode.analysis.result import Estimate, GroupResult, Pair
from specdecode.analysis.statistics import CONFIDENCE, t_quantile
from specdecode.experiment.model import Variant
from specdecode.speculation.advisor import NOISE, Observation

DECODING = "time_per_output_token"
STEPS = "tokens_per_step"
LEAST_ERROR = 0.01
"""Requests that repeat one prompt agree better among themselves than two runs do: no error is taken to be smaller."""


def observation(variant: Variant, pair: Pair, result: GroupResult) -> Observation | None:
    """The arm's, over one group of cases; None where it differs in more than speculation, or a figure has no value."""
    spec = variant.speculation
    estimates = {estimate.metric: estimate for estimate in result.speedups}
    if spec is None or pair.changes != ("speculation",) or DECODING not in estimates or STEPS not in estimates:
        return None
    return Observation(
        draft=spec.draft.id,
        k=spec.num_speculative_tokens,
        speedup=estimates[DECODING].ratio,
        tokens_per_step=estimates[STEPS].ratio,
        error=_error(estimates[DECODING]),
    )


def _error(estimate: Estimate) -> float:
    if estimate.low is None or estimate.high is None or estimate.n < 2:
        return NOISE
    reach = t_quantile(0.5 + CONFIDENCE / 2.0, estimate.n - 1.0)
    return max(LEAST_ERROR, math.log(estimate.high / estimate.low) / 2.0 / reach)
