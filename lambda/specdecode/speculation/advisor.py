"""Which (draft, k) to compile next, when to stop, and how much the remaining arms can gain.

A compile on Trainium2 takes most of an hour, a measurement minutes. So the advisor saves compiles. For every draft it
holds a belief about the logarithm of the speed-up at every k: the calibrated model (theory.py) is its mean, and a
Gaussian process describes what the model does not know (acceptance that falls with the position, prompts that differ,
steps whose cost jumps). It proposes the candidate with the largest expected improvement over the best measured arm. It
stops if that is not worth a compile (Jones, Schonlau, Welch 1998, "Efficient global optimization"). Then arms that may
equal the best are worth another measurement, which needs no compile.

benchmarks/advisor.py measures its error against simulated sweeps that break its model. See ADR 82.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from specdecode.experiment.most_tokens import MostTokens
from specdecode.speculation.gaussian import posterior
from specdecode.speculation.theory import acceptance_from_tokens, speedup

NOISE = 0.03
"""Relative standard error of a measured speed-up, if the observation has none."""
WORTH = 0.003
"""Expected improvement of the log speed-up below which another compile is not worth its hour."""
MOST_MEASUREMENTS = 5
"""Most measurements of one arm that the advisor asks for."""
REACH = 1.645
"""Standard deviations of "at most": one-sided 95%."""

PRIOR_C, SPREAD_C = 0.06, 0.05
PRIOR_V, SPREAD_V = 0.2, 0.15
"""Usual values of c and v, and their standard deviations. They only decide what measurements leave open."""
PRIOR_A, SPREAD_STEP = 0.8, 0.05
"""Acceptance before any measurement; and relative error of a step's duration in the ridge regression that separates c
from v."""
LEVEL_UNSEEN, LEVEL_SEEN = 0.30, 0.05
SMOOTH, LENGTH = 0.06, 4.0
JUMP = 0.015
"""Standard deviations (log speed-up) of what the model does not know: a level for a draft that was never measured, or
was measured; a smooth part over LENGTH values of k; and a random walk of JUMP per k, for steps whose cost jumps."""


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
    """Most that the unmeasured candidates can gain over the best, as a ratio - 1 (one-sided 95%)."""
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
    prior_a: float = PRIOR_A,
) -> Advice:
    """Order the rest of a sweep. `candidates`: all its arms, measured ones included, with a draft to verify each.

    `most`: what a step of the engine that all of them run on yields at most. `prior_a`: acceptance that is taken for
    what nothing was measured of.
    """
    if any(most.verified(candidate.k) < 1 for candidate in candidates):
        raise ValueError(
            f"candidates verify a draft or more: k = 0 is the baseline, and here a step yields {most} tokens"
        )
    measured = {Candidate(item.draft, item.k) for item in observations}
    believed: dict[Candidate, tuple[float, float]] = {}
    for draft in dict.fromkeys(candidate.draft for candidate in candidates):
        ks = sorted({candidate.k for candidate in candidates if candidate.draft == draft})
        believed.update(believe(draft, ks, observations, most=most, prior_a=prior_a))
    best, gain = _best(believed, measured)
    beliefs = sorted(
        (_belief(candidate, *believed[candidate], gain) for candidate in candidates if candidate not in measured),
        key=lambda belief: -belief.improvement,
    )
    remaining = max((belief.high / gain - 1.0 for belief in beliefs), default=0.0)
    again = _rivals(believed, observations, best)
    if not beliefs:
        reason = "Every candidate is measured" + ("." if best else ", and none is faster than plain decoding.")
        return Advice(None, best, gain, 0.0, reason, (), again)
    first = beliefs[0]
    if first.improvement < WORTH:
        if best is None:
            reason = "Do not speculate here: no k is faster than plain decoding, measured or believed."
            return Advice(None, None, gain, max(0.0, remaining), reason, tuple(beliefs), again)
        reason = (
            f"Stop: another compile is expected to gain {first.improvement:.1%}, and the rest of the sweep can gain "
            f"{max(0.0, remaining):.0%} at most."
        )
        return Advice(None, best, gain, max(0.0, remaining), reason, tuple(beliefs), again)
    reason = (
        f"Compile {first.candidate.draft} with k={first.candidate.k}: {first.speedup:.2f}× expected "
        f"({first.low:.2f}–{first.high:.2f}) against {gain:.2f}× so far."
    )
    return Advice(first.candidate, best, gain, max(0.0, remaining), reason, tuple(beliefs))


def calibrate(
    observations: Sequence[Observation], *, most: MostTokens, prior_a: float = PRIOR_A
) -> tuple[float, float, float]:
    """(a, c, v) of some measured arms: a from tokens per step, c and v by ridge regression towards the prior.

    A step with k drafts takes 1 + k c + v of a plain step's time, and tokens_per_step / speed-up is that time: so
    `extra` = k c + v is linear in (c, v), and two unknowns are solved for by the normal equations.
    """
    seen = [item for item in observations if most.verified(item.k)]
    found = [acceptance_from_tokens(item.tokens_per_step, most.verified(item.k)) for item in seen]
    a = math.fsum(found) / len(found) if found else prior_a
    # The prior stands in the sums as one observation each of c and of v, as certain as its spread says.
    # Left side: [kk k1; k1 n] (c, v). Right side: (ky, y1).
    kk, k1, n = 1.0 / SPREAD_C**2, 0.0, 1.0 / SPREAD_V**2
    ky, y1 = PRIOR_C / SPREAD_C**2, PRIOR_V / SPREAD_V**2
    for item in observations:
        step = item.tokens_per_step / item.speedup
        # The error is relative to the step's time: a longer step is known less well, and counts less.
        weight, extra = 1.0 / (SPREAD_STEP * step) ** 2, step - 1.0
        kk, k1, n = kk + weight * item.k**2, k1 + weight * item.k, n + weight
        ky, y1 = ky + weight * item.k * extra, y1 + weight * extra
    # Never zero: the prior alone makes kk and n positive, and by Cauchy and Schwarz k1² stays below their product.
    determinant = kk * n - k1 * k1
    # Cramer's rule. Noise can make a cost negative, which none is.
    return a, max(0.0, (ky * n - y1 * k1) / determinant), max(0.0, (kk * y1 - k1 * ky) / determinant)


def believe(
    draft: str, ks: Sequence[int], observations: Sequence[Observation], *, most: MostTokens, prior_a: float = PRIOR_A
) -> dict[Candidate, tuple[float, float]]:
    """Mean and standard deviation of the log speed-up of one draft at every k.

    A draft that was never measured is believed to be like the others, within LEVEL_UNSEEN.
    """
    own = [item for item in observations if item.draft == draft]
    a, c, v = calibrate(own or observations, most=most, prior_a=prior_a)
    a = min(a, 0.999)
    level, start = (LEVEL_SEEN if own else LEVEL_UNSEEN), min(ks)

    def covariance(left: int, right: int) -> float:
        smooth = SMOOTH**2 * math.exp(-((left - right) ** 2) / (2.0 * LENGTH**2))
        walk = JUMP**2 * (min(left, right) - start + 1)
        return level**2 + smooth + walk

    def model(k: int) -> float:
        return math.log(speedup(a, k, c, v, most=most))

    found = posterior(
        covariance,
        at=ks,
        seen=[item.k for item in own],
        values=[math.log(item.speedup) - model(item.k) for item in own],
        noise=[item.error for item in own],
    )
    return {Candidate(draft, k): (model(k) + mean, deviation) for k, (mean, deviation) in zip(ks, found, strict=True)}


def _best(believed: dict[Candidate, tuple[float, float]], measured: set[Candidate]) -> tuple[Candidate | None, float]:
    """Best measured arm by its posterior mean (the smaller k on a tie), and its speed-up. 1 if there is none."""
    known = {candidate: math.exp(believed[candidate][0]) for candidate in measured if candidate in believed}
    top = max(known.values(), default=1.0)
    if top <= 1.0:
        return None, 1.0
    best = min((c for c in known if known[c] == top), key=lambda c: c.k)
    return best, known[best]


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


def _belief(candidate: Candidate, mean: float, deviation: float, best: float) -> Belief:
    z = (mean - math.log(best)) / deviation if deviation > 0 else 0.0
    density = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    below = 0.5 * math.erfc(-z / math.sqrt(2.0))
    return Belief(
        candidate,
        math.exp(mean),
        math.exp(mean - REACH * deviation),
        math.exp(mean + REACH * deviation),
        deviation * (z * below + density),
    )
