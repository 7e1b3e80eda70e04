"""Which (draft, k) to compile next, when to stop, and how much the remaining arms can gain.

A compile on Trainium2 takes most of an hour, a measurement minutes. So the advisor saves compiles. It holds a belief
about the logarithm of the speed-up of every draft at every k: tokens per step (measured, from a forecast, or a guess)
over the time of a step (a Gaussian process over all evidence and the own runs: step_cost.py). It proposes the candidate
with the largest expected improvement over the best measured arm. It stops if that is not worth a compile (Jones,
Schonlau, Welch 1998, "Efficient global optimization"). Then arms that may equal the best are worth another measurement,
which needs no compile.

benchmarks/advisor.py measures its error against simulated sweeps that break its model. See ADR 82.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.variants import Method
from specdecode.speculation.gaussian import Posterior
from specdecode.speculation.step_cost import Card, MeasuredStep, StepArm, log_extra, shipped
from specdecode.speculation.theory import acceptance_from_tokens, expected_tokens

NOISE = 0.03
"""Relative standard error of a measured speed-up, if the observation has none."""
WORTH = 0.005
"""Expected improvement of the log speed-up below which another compile is not worth its hour."""
SURE = 0.02
"""Relative standard error of a compiled arm's speed-up above which it is measured again before another compile."""
MOST_MEASUREMENTS = 5
"""Most measurements of one arm that the advisor asks for."""
REACH = 1.645
"""Standard deviations of a single arm's bounds: one-sided 95%."""
WRONG = 0.05
"""Share of the sweeps in which some arm may gain more than "at most"."""

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
    tokens_per_step: float
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
        ]
        return (self.card or shipped()).with_own(measured).curves([self.arm(draft, k) for k in ks])

    def arm(self, draft: str, k: int) -> StepArm:
        """What decides the cost of the arm."""
        return self.arms.get(draft, USUAL._replace(draft=draft))._replace(k=k)


USUAL = StepArm("", Method.FUSED_DRAFT, "", 60.0, "", 2.0, 32, 1.0, 1)
PRIOR = Prior()
LINE = range(1, 17)
"""The k through which `calibrate` draws its line."""


class Belief(NamedTuple):
    """Belief about one candidate's speed-up."""

    candidate: Candidate
    speedup: float
    low: float
    high: float
    """One-sided 95% bounds."""
    improvement: float
    """Expected relative improvement over the best measured arm."""


class Advice(NamedTuple):
    """What to do next, and why."""

    compile_next: Candidate | None
    """None: stop."""
    best: Candidate | None
    """Best arm measured so far. None: no arm is faster than plain decoding."""
    best_speedup: float
    remaining_gain: float
    """Most that the unmeasured candidates can gain over the best, as a ratio - 1: a bound that holds for all of them
    together in 95% (benchmarks/advisor.py has how often it did)."""
    reason: str
    beliefs: tuple[Belief, ...]
    """Beliefs about the unmeasured candidates, the most promising first."""
    measure_again: tuple[Candidate, ...] = ()
    """If the advice is to stop: compiled arms (the best among them) whose order one more measurement might change."""


def advise(
    candidates: Sequence[Candidate],
    observations: Sequence[Observation],
    *,
    most: MostTokens,
    prior: Prior = PRIOR,
    loads: int = 1,
) -> Advice:
    """Order the rest of a sweep. `candidates`: all its arms, measured ones included, with a draft to verify each.

    `most`: what a step of the engine that all of them run on yields at most. `prior`: what is believed of
    what was not measured. Before any measurement the arm with the best expectation is the first. `loads`: at so many
    loads `remaining_gain` holds together.
    """
    if any(most.verified(candidate.k) < 1 for candidate in candidates):
        raise ValueError(
            f"candidates verify a draft or more: k = 0 is the baseline, and here a step yields {most} tokens"
        )
    seen = merged(observations)
    measured = {Candidate(item.draft, item.k) for item in seen}
    known: dict[str, Curves] = {}
    believed: dict[Candidate, tuple[float, float]] = {}
    for draft in dict.fromkeys(candidate.draft for candidate in candidates):
        ks = sorted({candidate.k for candidate in candidates if candidate.draft == draft})
        known[draft] = curves(draft, ks, seen, most=most, prior=prior)
        believed.update(known[draft].believed(draft))
    best, gain = _best(believed, measured)
    over = believed[best] if best else (0.0, 0.0)
    beliefs = sorted(
        (
            Belief(
                at,
                *_bounds(*believed[at]),
                known[at.draft].improvement(at.k, over=best.k if best and best.draft == at.draft else over),
            )
            for at in candidates
            if at not in measured
        ),
        key=lambda belief: -(belief.improvement if observations else belief.speedup),
    )
    remaining = _at_most(believed, [belief.candidate for belief in beliefs], best, loads)
    again = _rivals(believed, observations, best)
    if not beliefs:
        reason = "Every candidate is measured" + ("." if best else ", and none is faster than plain decoding.")
        return Advice(None, best, gain, 0.0, reason, (), again)
    first = beliefs[0]
    if first.improvement < WORTH:
        if best is None:
            reason = "Do not speculate here: no k is faster than plain decoding, measured or believed."
            return Advice(None, None, gain, remaining, reason, tuple(beliefs), again)
        reason = (
            f"Stop: another compile is expected to gain {first.improvement:.1%}, and the rest of the sweep can gain "
            f"{remaining:.0%} at most."
        )
        return Advice(None, best, gain, remaining, reason, tuple(beliefs), again)
    reason = (
        f"Compile {first.candidate.draft} with k={first.candidate.k}: {first.speedup:.2f}× expected "
        f"({first.low:.2f}–{first.high:.2f}) against {gain:.2f}× so far."
    )
    return Advice(first.candidate, best, gain, remaining, reason, tuple(beliefs))


def calibrate(
    observations: Sequence[Observation], *, most: MostTokens, prior: Prior = PRIOR, ks: Sequence[int] = LINE
) -> tuple[float, float, float]:
    """(a, c, v) of some measured arms: a from tokens per step, c and v a straight line through the believed steps.

    A step with k drafts takes 1 + k c + v of a plain step's time. One measured arm leaves open how much of it is k c,
    and the card of step costs decides that.
    """
    found = _acceptances(observations, most)
    a = math.fsum(found.values()) / len(found) if found else USUAL_A
    draft = observations[0].draft if observations else ""
    parts = prior.steps(draft, ks, observations)
    extras = [math.exp(math.fsum(chance * own.mean[at] for chance, own in parts)) for at in range(len(ks))]
    middle, level = math.fsum(ks) / len(ks), math.fsum(extras) / len(extras)
    slope = math.fsum((k - middle) * extra for k, extra in zip(ks, extras, strict=True))
    c = max(0.0, slope / math.fsum((k - middle) ** 2 for k in ks))
    return a, c, max(0.0, level - c * middle)


class Curves(NamedTuple):
    """Belief about one draft: what its log speed-up may be at each k, in some curves with their chances."""

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
        """Expected gain of k over another k of the draft, or over another draft's arm (mean, standard deviation).

        Two k of one draft share most of what is not known, so their difference is known better than either.
        """
        at, found = self.ks.index(k), 0.0
        best = self.ks.index(over) if isinstance(over, int) else 0
        for chance, own in self.parts:
            variance = own.covariance[at][at]
            if isinstance(over, int):
                mean = own.mean[at] - own.mean[best]
                variance += own.covariance[best][best] - 2.0 * own.covariance[at][best]
            else:
                mean, variance = own.mean[at] - over[0], variance + over[1] ** 2
            found += chance * _expected_gain(mean, math.sqrt(max(1e-12, variance)))
        return found


def curves(
    draft: str, ks: Sequence[int], observations: Sequence[Observation], *, most: MostTokens, prior: Prior = PRIOR
) -> Curves:
    """Belief about the log speed-up of one draft at every k. `observations`: of every arm one (`merged`).

    A draft that was never measured is believed to be as much better or worse than guessed as the others, within OTHERS.
    """
    own = _acceptances([item for item in observations if item.draft == draft], most)
    apart = [
        math.log(item.tokens_per_step) - prior.guess(Candidate(item.draft, item.k), most)[0]
        for item in observations
        if item.draft != draft
    ]
    believed = []
    for k in ks:
        tokens = prior.guess(Candidate(draft, k), most)
        if own:
            spread = TOKENS + SHAPE * min(abs(math.log(k / at)) for at in own)
            measured = expected_tokens(min(_at(own, k), 0.999), most.verified(k))
            tokens = _together(tokens, (math.log(measured), spread))
        elif apart:
            tokens = _together(tokens, (tokens[0] + math.fsum(apart) / len(apart), OTHERS))
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
    return [_mean(own) if len(own) > 1 else own[0] for own in found.values()]


def _mean(own: Sequence[Observation]) -> Observation:
    weights = [item.error**-2 for item in own]
    speedup, tokens = (
        math.exp(
            math.fsum(weight * math.log(value) for weight, value in zip(weights, values, strict=True))
            / math.fsum(weights)
        )
        for values in ([item.speedup for item in own], [item.tokens_per_step for item in own])
    )
    return own[0]._replace(speedup=speedup, tokens_per_step=tokens, error=math.fsum(weights) ** -0.5)


def next_arm(advice: Advice, observations: Sequence[Observation]) -> Candidate | None:
    """The arm that a sweep measures next, which holds a node. None: the sweep ends.

    A measurement costs minutes and a compile an hour: what was compiled is known well (SURE) before the next compile.
    """
    times = Counter(Candidate(item.draft, item.k) for item in observations)
    unsure = [
        arm
        for item in merged(observations)
        if item.error > SURE and times[arm := Candidate(item.draft, item.k)] < MOST_MEASUREMENTS
    ]
    if advice.compile_next:
        return unsure[0] if unsure else advice.compile_next
    return min(advice.measure_again, key=times.__getitem__, default=None)


def _together(left: tuple[float, float], right: tuple[float, float]) -> tuple[float, float]:
    """Mean and standard deviation of what two independent sources say."""
    weight = right[1] ** 2 / (left[1] ** 2 + right[1] ** 2)
    return weight * left[0] + (1.0 - weight) * right[0], left[1] * right[1] / math.hypot(left[1], right[1])


def _acceptances(observations: Sequence[Observation], most: MostTokens) -> dict[int, float]:
    """Mean acceptance at every measured k that verifies a draft."""
    found: dict[int, list[float]] = {}
    for item in observations:
        if n := most.verified(item.k):
            found.setdefault(item.k, []).append(acceptance_from_tokens(item.tokens_per_step, n))
    return {k: math.fsum(each) / len(each) for k, each in found.items()}


def _at(known: Mapping[int, float], k: int) -> float:
    """Acceptance at k: between two measured k on the straight line, beyond them as the nearest."""
    below, above = [at for at in known if at <= k], [at for at in known if at >= k]
    if not below or not above:
        return known[min(known, key=lambda at: abs(at - k))]
    low, high = max(below), min(above)
    share = (k - low) / (high - low) if high > low else 0.0
    return known[low] + share * (known[high] - known[low])


def _best(believed: dict[Candidate, tuple[float, float]], measured: set[Candidate]) -> tuple[Candidate | None, float]:
    """Best measured arm by its posterior mean (the smaller k on a tie), and its speed-up. 1 if there is none."""
    known = {candidate: math.exp(believed[candidate][0]) for candidate in measured if candidate in believed}
    top = max(known.values(), default=1.0)
    if top <= 1.0:
        return None, 1.0
    best = min((c for c in known if known[c] == top), key=lambda c: c.k)
    return best, known[best]


def _at_most(
    believed: Mapping[Candidate, tuple[float, float]], left: Sequence[Candidate], best: Candidate | None, loads: int
) -> float:
    """Most that the arms `left` gain over the best, which is not known exactly either (Bonferroni)."""
    if not left:
        return 0.0
    over, own = believed[best] if best else (0.0, 0.0)
    reach = NormalDist().inv_cdf(1.0 - WRONG / (len(left) * loads))
    gains = [mean - over + reach * math.hypot(deviation, own) for mean, deviation in map(believed.__getitem__, left)]
    return max(0.0, math.exp(max(gains)) - 1.0)


def _rivals(
    believed: dict[Candidate, tuple[float, float]], observations: Sequence[Observation], best: Candidate | None
) -> tuple[Candidate, ...]:
    """The best arm and the arms within one standard deviation of it that were seldom measured.
    Empty if there are none.
    """
    if best is None:
        return ()
    times = Counter(Candidate(item.draft, item.k) for item in observations)
    bar = believed[best][0]
    near = [c for c in times if c == best or believed[c][0] + believed[c][1] + believed[best][1] >= bar]
    return tuple(c for c in near if times[c] < MOST_MEASUREMENTS) if len(near) > 1 else ()


def _bounds(mean: float, deviation: float) -> tuple[float, float, float]:
    return math.exp(mean), math.exp(mean - REACH * deviation), math.exp(mean + REACH * deviation)


def _expected_gain(mean: float, deviation: float) -> float:
    """Expected value of what exceeds 0 of a normal variable (Jones, Schonlau, Welch 1998, equation 15)."""
    z = mean / deviation
    density = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    return deviation * (z * 0.5 * math.erfc(-z / math.sqrt(2.0)) + density)
