"""What is believed of a draft's speed-up at every k, for the advisor: tokens per step (measured, from a forecast, or a
guess) over the time of a step (the card of step costs, and the own runs).
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.variants import Method
from specdecode.speculation.step_cost import Card, MeasuredStep, Posterior, StepArm, log_extra, of_rows, published
from specdecode.speculation.theory import acceptance_from_tokens, expected_tokens

NOISE = 0.03
"""Relative standard error of a measured speed-up, if the observation has none."""
USUAL_A, SPREAD_A = 0.7, 0.4
"""Acceptance of which nothing at all is known, and its standard deviation as a part of the tokens per step."""
OTHERS, TOKENS, SHAPE = 0.30, 0.01, 0.03
"""Standard deviations of the logarithm of tokens per step: of a draft when only others were measured; of a measured
arm; and for each e-fold of k that a measured draft's arm is away from the nearest measured k."""


class Candidate(NamedTuple):
    """One arm that could be compiled."""

    draft: str
    k: int


class Observation(NamedTuple):
    """What a measured arm shows the advisor."""

    draft: str
    k: int
    speedup: float
    """Speed-up of decoding over the arm without speculation."""
    tokens_per_step: float | None
    """None if unknown: then it shows how fast this arm is, and nothing of any other."""
    error: float = NOISE
    """Relative standard error of the speed-up."""


class Prior(NamedTuple):
    """What is believed before anything is measured."""

    tokens: Mapping[Candidate, tuple[float, float]] = {}
    """Tokens per step, and the standard deviation of their logarithm: wide for a guess, narrow from a forecast."""
    card: Card | None = None
    """None: the evidence that ships."""
    arms: Mapping[str, StepArm] = {}
    """For every draft an arm of it, at any k. A draft that is not there is one of usual size, of no known engine."""

    def guess(self, candidate: Candidate, most: MostTokens) -> tuple[float, float]:
        """Logarithm of the tokens per step, and its standard deviation."""
        tokens, spread = self.tokens.get(candidate) or (expected_tokens(USUAL_A, most.verified(candidate.k)), SPREAD_A)
        return math.log(tokens), spread

    def steps(
        self, draft: str, ks: Sequence[int], observations: Sequence[Observation]
    ) -> list[tuple[float, Posterior]]:
        """The logarithm of what each k adds to a plain step, given what was measured (`Card.curves`)."""
        measured = [
            MeasuredStep(self.arm(item.draft, item.k), *log_extra(item.tokens_per_step, item.speedup, item.error))
            for item in observations
            if item.tokens_per_step
        ]
        card = self.card or of_rows(published())
        return Card((*card.rows, *measured)).curves([self.arm(draft, k) for k in ks])

    def arm(self, draft: str, k: int) -> StepArm:
        """What decides the cost of the arm."""
        return self.arms.get(draft, USUAL._replace(draft=draft))._replace(k=k)


USUAL = StepArm("", Method.FUSED_DRAFT, "", 60.0, "", 2.0, 32, 1.0, 1)
PRIOR = Prior()
LINE = range(1, 17)
"""The k through which `calibrate` draws its line."""


def calibrate(
    observations: Sequence[Observation], *, most: MostTokens, prior: Prior = PRIOR
) -> tuple[float, float, float]:
    """(a, c, v) of one measured arm or more: a from tokens per step, c and v a straight line through the believed
    steps. One arm leaves open how much of its step is k c, and the card of step costs decides that.
    """
    found = _acceptances(observations, most)
    parts = prior.steps(observations[0].draft, LINE, observations)
    extras = [math.exp(math.fsum(chance * own.mean[at] for chance, own in parts)) for at in range(len(LINE))]
    middle = fmean(LINE)
    slope = math.fsum((k - middle) * extra for k, extra in zip(LINE, extras, strict=True))
    c = max(0.0, slope / math.fsum((k - middle) ** 2 for k in LINE))
    return fmean(found.values()) if found else USUAL_A, c, max(0.0, fmean(extras) - c * middle)


class Curves(NamedTuple):
    """What the log speed-up of one draft may be at each k: some curves, with their chances."""

    ks: tuple[int, ...]
    parts: tuple[tuple[float, Posterior], ...]

    def believed(self, draft: str) -> dict[Candidate, tuple[float, float]]:
        """Mean and standard deviation at every k."""
        found = {}
        for at, k in enumerate(self.ks):
            mean = math.fsum(chance * own.mean[at] for chance, own in self.parts)
            square = math.fsum(chance * (own.covariance[at][at] + own.mean[at] ** 2) for chance, own in self.parts)
            found[Candidate(draft, k)] = (mean, math.sqrt(max(0.0, square - mean**2)))
        return found

    def improvement(self, k: int, *, over: int | tuple[float, float]) -> float:
        """Expected gain of k over another k of the draft, whose steps are alike, or over another draft's arm."""
        at, found = self.ks.index(k), 0.0
        for chance, own in self.parts:
            mean, variance = own.mean[at], own.covariance[at][at]
            if isinstance(over, int):
                best = self.ks.index(over)
                mean -= own.mean[best]
                variance += own.covariance[best][best] - 2.0 * own.covariance[at][best]
            else:
                mean, variance = mean - over[0], variance + over[1] ** 2
            found += chance * _expected_gain(mean, math.sqrt(max(1e-12, variance)))
        return found


def curves(
    draft: str, ks: Sequence[int], observations: Sequence[Observation], *, most: MostTokens, prior: Prior = PRIOR
) -> Curves:
    """What the log speed-up of one draft may be at every k. `observations`: of every arm one (`merged`). A draft that
    was never measured is as much better or worse than guessed as the others, within OTHERS.
    """
    taught = [(item, item.tokens_per_step) for item in observations if item.tokens_per_step]
    own = {item.k: tokens for item, tokens in taught if item.draft == draft and most.verified(item.k)}
    apart = [
        math.log(tokens) - prior.guess(Candidate(item.draft, item.k), most)[0]
        for item, tokens in taught
        if item.draft != draft
    ]
    believed = []
    for k in ks:
        tokens = prior.guess(Candidate(draft, k), most)
        if own:
            measured, spread = tokens_at(own, k, most)
            tokens = _together(tokens, (math.log(measured), TOKENS + spread))
        elif apart:
            tokens = _together(tokens, (tokens[0] + fmean(apart), OTHERS))
        believed.append(tokens)
    parts = prior.steps(draft, ks, observations)
    return Curves(tuple(ks), tuple((chance, _speedups(believed, extra)) for chance, extra in parts))


def _speedups(tokens: Sequence[tuple[float, float]], extra: Posterior) -> Posterior:
    """Log speed-up at each k: log tokens per step less the log of the step, whose uncertainty is to first order."""
    steps = [1.0 + math.exp(mean) for mean in extra.mean]
    share = [(step - 1.0) / step for step in steps]
    return Posterior(
        tuple(mean - math.log(step) for (mean, _), step in zip(tokens, steps, strict=True)),
        tuple(
            tuple(share[i] * share[j] * value + (tokens[i][1] ** 2 if i == j else 0.0) for j, value in enumerate(row))
            for i, row in enumerate(extra.covariance)
        ),
    )


def believe(
    draft: str, ks: Sequence[int], observations: Sequence[Observation], *, most: MostTokens, prior: Prior = PRIOR
) -> dict[Candidate, tuple[float, float]]:
    """Mean and standard deviation of the log speed-up of one draft at every k (`curves`)."""
    return curves(draft, ks, merged(observations), most=most, prior=prior).believed(draft)


def merged(observations: Sequence[Observation]) -> list[Observation]:
    """One observation of each arm: the mean of its measurements, weighted by how sure each is."""
    found: dict[Candidate, list[Observation]] = {}
    for item in observations:
        found.setdefault(Candidate(item.draft, item.k), []).append(item)
    return [_merged(own) if len(own) > 1 else own[0] for own in found.values()]


def _merged(own: Sequence[Observation]) -> Observation:
    tokens = [(item.tokens_per_step, item.error**-2) for item in own if item.tokens_per_step]
    return own[0]._replace(
        speedup=_mean([(item.speedup, item.error**-2) for item in own]),
        tokens_per_step=_mean(tokens) if tokens else None,
        error=math.fsum(item.error**-2 for item in own) ** -0.5,
    )


def _mean(weighted: Sequence[tuple[float, float]]) -> float:
    total = math.fsum(weight for _, weight in weighted)
    return math.exp(math.fsum(weight * math.log(value) for value, weight in weighted) / total)


def _together(left: tuple[float, float], right: tuple[float, float]) -> tuple[float, float]:
    """Mean and standard deviation of what two independent sources say."""
    weight = right[1] ** 2 / (left[1] ** 2 + right[1] ** 2)
    return weight * left[0] + (1.0 - weight) * right[0], left[1] * right[1] / math.hypot(left[1], right[1])


def _acceptances(observations: Sequence[Observation], most: MostTokens) -> dict[int, float]:
    """Mean acceptance at every measured k that verifies a draft."""
    found: dict[int, list[float]] = {}
    for item in observations:
        if item.tokens_per_step and (n := most.verified(item.k)):
            found.setdefault(item.k, []).append(acceptance_from_tokens(item.tokens_per_step, n))
    return {k: fmean(each) for k, each in found.items()}


def tokens_at(known: Mapping[int, float], k: int, most: MostTokens) -> tuple[float, float]:
    """Tokens per step at k from those at other k, and the standard deviation that their logarithm has beside theirs.
    Acceptance is on the straight line between two known k, and beyond them as at the nearest; tokens between two known
    k are between theirs.
    """
    low = max((at for at in known if at <= k), default=min(known))
    high = min((at for at in known if at >= k), default=max(known))
    first, last = (acceptance_from_tokens(known[at], most.verified(at)) for at in (low, high))
    share = (k - low) / (high - low) if high > low else 0.0
    found = expected_tokens(min(first + share * (last - first), 0.999), most.verified(k))
    if low <= k <= high:
        least, greatest = sorted((known[low], known[high]))
        found = min(max(found, least), greatest)
    return found, SHAPE * min(abs(math.log(k / at)) for at in (low, high))


def _expected_gain(mean: float, deviation: float) -> float:
    """Expected value of what exceeds 0 of a normal variable (Jones, Schonlau, Welch 1998, equation 15)."""
    z = mean / deviation
    density = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    return deviation * (z * 0.5 * math.erfc(-z / math.sqrt(2.0)) + density)
