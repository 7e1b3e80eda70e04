"""Which (draft, k) to compile next, when to stop, and how much the remaining arms can gain; at one load or several.

A compile on Trainium2 takes most of an hour, a measurement minutes. So the advisor saves compiles. By what is believed
of the speed-up of every draft at every k (belief.py) it proposes the candidate with the largest expected improvement
over the best measured arm. It stops if that is not worth a compile (Jones, Schonlau, Welch 1998, "Efficient global
optimization"). Then arms that may equal the best are worth another measurement, which needs no compile.

Each of several loads has its own best k, and a deployment can use each k at its load. So the value of a compile is its
expected improvement over the best arm of each load: the mean over the loads, with equal weights.

benchmarks/advisor.py measures its error against simulated sweeps that break its model. See ADR 82.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import NormalDist, fmean, geometric_mean
from typing import NamedTuple

from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Level
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
    """What is believed of one candidate's speed-up."""

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
    """Order the rest of a sweep. `candidates`: all its arms, measured ones included. `loads`: at so many loads
    `remaining_gain` holds together. Before any measurement the arm with the best expectation is the first.
    """
    if any(most.verified(candidate.k) < 1 for candidate in candidates):
        raise ValueError(f"candidates verify a draft or more, and here a step yields {most} tokens")
    seen = merged(observations)
    measured = {Candidate(item.draft, item.k) for item in seen}
    known: dict[str, Curves] = {}
    believed: dict[Candidate, tuple[float, float]] = {}
    for draft in dict.fromkeys(candidate.draft for candidate in candidates):
        ks = sorted({candidate.k for candidate in candidates if candidate.draft == draft})
        known[draft] = curves(draft, ks, seen, most=most, prior=prior)
        believed.update(known[draft].believed(draft))
    timed = {Candidate(item.draft, item.k): item for item in seen if item.tokens_per_step is None}
    believed |= {at: (math.log(item.speedup), item.error) for at, item in timed.items() if at in believed}
    gains = {at: math.exp(believed[at][0]) for at in measured if at in believed}
    best = _fastest(gains, 1.0)
    gain = gains[best] if best else 1.0
    over = believed[best] if best else (0.0, 0.0)
    beliefs = []
    for at in candidates:
        if at not in measured:
            mean, deviation = believed[at]
            speedup, low, high = (math.exp(mean + reach * deviation) for reach in (0.0, -REACH, REACH))
            alike = best if best and best.draft == at.draft and best not in timed else None
            improvement = known[at.draft].improvement(at.k, over=alike.k if alike else over)
            beliefs.append(Belief(at, speedup, low, high, improvement))
    beliefs.sort(key=lambda belief: -(belief.improvement if observations else belief.speedup))
    remaining = _at_most(believed, [belief.candidate for belief in beliefs], best, loads)
    chosen = None
    if not beliefs:
        reason = "Every candidate is measured" + ("." if best else ", and none is faster than plain decoding.")
    elif (first := beliefs[0]).improvement >= WORTH:
        chosen = first.candidate
        reason = (
            f"Compile {chosen.draft} with k={chosen.k}: {first.speedup:.2f}× expected "
            f"({first.low:.2f}–{first.high:.2f}) against {gain:.2f}× so far."
        )
    elif best is None:
        reason = "Do not speculate here: no k is faster than plain decoding, measured or believed."
    else:
        reason = (
            f"Stop: another compile is expected to gain {first.improvement:.1%}, and the rest of the sweep can gain "
            f"{remaining:.0%} at most."
        )
    again = () if chosen else _rivals(believed, observations, best)
    return Advice(chosen, best, gain, remaining, reason, tuple(beliefs), again)


def next_arm(advice: Advice, observations: Sequence[Observation]) -> Candidate | None:
    """The arm that a sweep measures next; None: it ends. A measurement costs minutes and a compile an hour: what was
    compiled is known well (SURE) before the next compile.
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


def _fastest(gains: Mapping[Candidate, float], over: float) -> Candidate | None:
    """The arm with the largest gain (of equals the smaller k). None if that is not larger than `over`."""
    best = max(gains, key=lambda at: (gains[at], -at.k), default=None)
    return best if best and gains[best] > over else None


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
    """The best arm and the arms within one standard deviation of it that were seldom measured."""
    if best is None:
        return ()
    times = Counter(Candidate(item.draft, item.k) for item in observations)
    bar = believed[best][0]
    near = [c for c in times if c == best or believed[c][0] + believed[c][1] + believed[best][1] >= bar]
    return tuple(c for c in near if times[c] < MOST_MEASUREMENTS) if len(near) > 1 else ()


class LoadsAdvice(NamedTuple):
    """What to do next for all loads together, and the advice at each load."""

    together: Advice
    """`best`: the arm with the largest mean of the measured log speed-ups; `best_speedup`: geometric mean over loads
    of the best arm of each; `beliefs`: geometric means over the loads."""
    levels: tuple[tuple[Level, Advice], ...]
    """Advice at each load, the smallest load first."""


def advise_over_loads(
    candidates: Sequence[Candidate],
    seen: Mapping[Level, Sequence[Observation]],
    *,
    most: MostTokens,
    prior: Prior = PRIOR,
) -> LoadsAdvice:
    """As `advise`, after the observations at each load (at least one load, each with an observation)."""
    each = {
        level: advise(candidates, seen[level], most=most, prior=prior, loads=len(seen))
        for level in sorted(seen, key=lambda level: level.value)
    }
    compiled = {Candidate(item.draft, item.k) for found in seen.values() for item in found}
    believed = [{belief.candidate: belief for belief in advice.beliefs} for advice in each.values()]
    left = [candidate for candidate in candidates if candidate not in compiled]
    beliefs = sorted(
        (_over_loads(candidate, [known[candidate] for known in believed]) for candidate in left),
        key=lambda belief: -belief.improvement,
    )
    sums: dict[Candidate, float] = {}  # a load at which an arm was not measured counts as plain decoding
    for found in seen.values():
        for at in {Candidate(item.draft, item.k) for item in found}:
            own = [math.log(item.speedup) for item in found if (item.draft, item.k) == at]
            sums[at] = sums.get(at, 0.0) + fmean(own)
    best = _fastest(sums, 0.0)
    chosen = beliefs[0].candidate if beliefs and beliefs[0].improvement >= WORTH else None
    over = f"over the {len(each)} loads" if len(each) > 1 else "at the one load that was measured"
    if not beliefs:
        reason = "Every candidate is measured" + ("." if best else f", and none is faster than plain decoding {over}.")
    elif chosen is None:
        reason = f"Stop: another compile is expected to gain {beliefs[0].improvement:.1%} on average {over}."
    else:
        reason = (
            f"Compile {chosen.draft} with k={chosen.k}: expected to gain {beliefs[0].improvement:.1%} on average "
            f"{over}, against the best arm of each."
        )
    together = Advice(
        compile_next=chosen,
        best=best,
        best_speedup=geometric_mean(advice.best_speedup for advice in each.values()),
        remaining_gain=math.exp(fmean(math.log1p(advice.remaining_gain) for advice in each.values())) - 1.0,
        reason=reason,
        beliefs=tuple(beliefs),
        measure_again=()
        if chosen
        else tuple(dict.fromkeys(chain(*(advice.measure_again for advice in each.values())))),
    )
    return LoadsAdvice(together, tuple(each.items()))


def _over_loads(candidate: Candidate, found: Sequence[Belief]) -> Belief:
    """What is believed of an arm over the loads. Its uncertainty is common to them, so the bounds are not narrowed."""
    speedup, low, high = map(geometric_mean, zip(*((each.speedup, each.low, each.high) for each in found), strict=True))
    return Belief(candidate, speedup, low, high, fmean(each.improvement for each in found))
