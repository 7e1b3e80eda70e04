"""Which (draft, k) to compile next, when to stop, and how much the remaining arms can gain.

A compile on Trainium2 takes most of an hour, a measurement minutes. So the advisor saves compiles. By what is believed
of the speed-up of every draft at every k (belief.py) it proposes the candidate with the largest expected improvement
over the best measured arm. It stops if that is not worth a compile (Jones, Schonlau, Welch 1998, "Efficient global
optimization"). Then arms that may equal the best are worth another measurement, which needs no compile.

benchmarks/advisor.py measures its error against simulated sweeps that break its model. See ADR 82.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from specdecode.experiment.most_tokens import MostTokens
from specdecode.speculation.belief import PRIOR, Candidate, Curves, Observation, Prior, curves, merged

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
