"""The next few arms at once, for as many nodes: arms in flight count as if they had been measured, slightly worse than
expected.

Candidates that are chosen together must not all ask the same question. So each chosen candidate, and each that is being
compiled or measured elsewhere, gets its believed speed-up less one standard deviation, and the advisor is asked again
(Ginsbourger, Le Riche, Carraro 2010, "Kriging is well-suited to parallelize optimization": the kriging believer takes
the mean, the constant liar one value for all). It is less than the mean, since an arm that is only believed to be the
best is no reason to leave others out.

The result is deterministic. benchmarks/advisor.py measures what a batch costs. See ADR 191.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from specdecode.experiment.level import Level
from specdecode.experiment.most_tokens import MostTokens
from specdecode.speculation.advisor import NOISE, PRIOR_A, REACH, Belief, Candidate, Observation, calibrate
from specdecode.speculation.loads import LoadsAdvice
from specdecode.speculation.theory import expected_tokens

Seen = Mapping[Level, Sequence[Observation]]


def next_batch(
    advise: Callable[[Seen], LoadsAdvice],
    seen: Seen,
    *,
    count: int,
    in_flight: Sequence[Candidate] = (),
    most: MostTokens,
    prior_a: float = PRIOR_A,
) -> tuple[Belief, ...]:
    """The candidates that are worth a compile now, the most promising first, at most `count`, none twice.

    `advise`: what to compile next after the observations at each load (at least one load, which may have none).
    `in_flight`: candidates that are being compiled or measured, without a result yet. They are not among the `count`.
    """
    seen = on_their_way(advise, seen, in_flight, most=most, prior_a=prior_a)
    chosen: list[Belief] = []
    while len(chosen) < count and (best := (advice := advise(seen)).together.compile_next) is not None:
        chosen.append(next(belief for belief in advice.together.beliefs if belief.candidate == best))
        seen = on_their_way(advise, seen, (best,), most=most, prior_a=prior_a)
    return tuple(chosen)


def on_their_way(
    advise: Callable[[Seen], LoadsAdvice],
    seen: Seen,
    candidates: Sequence[Candidate],
    *,
    most: MostTokens,
    prior_a: float = PRIOR_A,
) -> Seen:
    """`seen`, and what is imagined of `candidates`, one after the other; of one that was measured, nothing."""
    for candidate in candidates:
        advice = advise(seen)
        at = dict(advice.levels)
        known = {
            level: next((b for b in at.get(level, advice.together).beliefs if b.candidate == candidate), None)
            for level in seen
        }
        seen = {
            level: [*found, imagined(belief, found, most=most, prior_a=prior_a)] if (belief := known[level]) else found
            for level, found in seen.items()
        }
    return seen


def imagined(belief: Belief, seen: Sequence[Observation], *, most: MostTokens, prior_a: float = PRIOR_A) -> Observation:
    """Assumed observation of a candidate at one load until it is measured."""
    draft, k = belief.candidate
    deviation = math.log(belief.speedup / belief.low) / REACH
    a, _, _ = calibrate([item for item in seen if item.draft == draft] or seen, most=most, prior_a=prior_a)
    return Observation(
        draft=draft,
        k=k,
        speedup=belief.speedup * math.exp(-deviation),
        tokens_per_step=expected_tokens(min(a, 0.999), most.verified(k)),
        error=NOISE,
    )
