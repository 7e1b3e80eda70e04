"""Which (draft, k) to compile next if several loads are measured, and which is best at each.

Each load has its own best k (`advisor.advise`), and a deployment can use each k at its load. So the value of a compile
is its expected improvement over the best arm of each load: the mean over the loads, with equal weights.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Level
from specdecode.speculation.advisor import WORTH, Advice, Belief, advise
from specdecode.speculation.belief import PRIOR, Candidate, Observation, Prior


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
        (_mean(candidate, [known[candidate] for known in believed]) for candidate in left),
        key=lambda belief: -belief.improvement,
    )
    best = _best(list(seen.values()))
    gain = math.exp(_average([math.log(advice.best_speedup) for advice in each.values()]))
    chosen = beliefs[0].candidate if beliefs and beliefs[0].improvement >= WORTH else None
    again = tuple(dict.fromkeys(item for advice in each.values() for item in advice.measure_again))
    together = Advice(
        compile_next=chosen,
        best=best,
        best_speedup=gain,
        remaining_gain=math.exp(_average([math.log1p(advice.remaining_gain) for advice in each.values()])) - 1.0,
        reason=_reason(chosen, beliefs, best, len(each)),
        beliefs=tuple(beliefs),
        measure_again=() if chosen else again,
    )
    return LoadsAdvice(together, tuple(each.items()))


def _mean(candidate: Candidate, found: Sequence[Belief]) -> Belief:
    """Belief about one arm over the loads. Its uncertainty is common to the loads, so the bounds are not narrowed."""
    speedup, low, high = (
        math.exp(_average([math.log(value) for value in values]))
        for values in zip(*((each.speedup, each.low, each.high) for each in found), strict=True)
    )
    return Belief(candidate, speedup, low, high, _average([each.improvement for each in found]))


def _best(loads: Sequence[Sequence[Observation]]) -> Candidate | None:
    """The arm with the largest gain over all loads; a load at which it was not measured counts as plain decoding. None
    if no arm is faster.
    """
    sums: dict[Candidate, float] = {}
    for found in loads:
        for candidate in {Candidate(item.draft, item.k) for item in found}:
            own = [math.log(item.speedup) for item in found if (item.draft, item.k) == candidate]
            sums[candidate] = sums.get(candidate, 0.0) + _average(own)
    top = max(sums.values(), default=0.0)
    return min((c for c in sums if sums[c] == top), key=lambda c: c.k) if top > 0.0 else None


def _reason(chosen: Candidate | None, beliefs: Sequence[Belief], best: Candidate | None, loads: int) -> str:
    over = f"over the {loads} loads" if loads > 1 else "at the one load that was measured"
    if not beliefs:
        return "Every candidate is measured" + ("." if best else f", and none is faster than plain decoding {over}.")
    first = beliefs[0]
    if chosen is None:
        return f"Stop: another compile is expected to gain {first.improvement:.1%} on average {over}."
    return (
        f"Compile {chosen.draft} with k={chosen.k}: expected to gain {first.improvement:.1%} on average {over}, "
        "against the best arm of each."
    )


def _average(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
