"""Pairs of which a figure cannot be true (specdecode.measures.plausibility): they have neither figures nor verdicts."""

from collections.abc import Mapping, Sequence

from specdecode.analysis.results.pairs import CaseResult, Pair, Verdict
from specdecode.experiment.model import Experiment
from specdecode.experiment.step import most_tokens
from specdecode.experiment.variants import Variant
from specdecode.measures.metrics.formulas import most_tokens_per_step
from specdecode.measures.plausibility import MOST_BY_SPECULATION, impossible_speedup, other_work

MOST_SAID = 3
"""Most impossible figures that a reason lists."""


def impossible_figures(
    experiment: Experiment, base: Variant, other: Variant, changed: Sequence[str], results: Sequence[CaseResult]
) -> dict[str, str]:
    """Case -> why figures of these two arms cannot be there."""
    found = {result.case: result.reason for result in results if result.impossible}
    most = None
    if tuple(changed) == ("speculation",) and experiment.workload.levels[0].rate is None:  # a queue has no such bound
        k = (other if other.speculation else base).k
        most = MOST_BY_SPECULATION if k is None else most_tokens_per_step(k, most_tokens(experiment, other))
    for result in results:
        bound = None if result.late else most  # a late client makes an arm look slower, by no one knows how much
        if result.headline and (why := impossible_speedup(result.headline.ratio, result.headline.low, most=bound)):
            found.setdefault(result.case, why)
    same = [result for result in results if result.equality.expected]
    compared, parted = (sum(getattr(each.equality, name) for each in same) for name in ("compared", "from_start"))
    if not {"quantization", "weights"} & set(changed) and (why := other_work(compared=compared, from_start=parted)):
        for each in same:
            if each.equality.from_start:
                found.setdefault(each.case, f"{why}: the arms do not do the same work")
    return found


def distrust(pair: Pair, why: Mapping[str, str]) -> Pair:
    """The pair without any figure or judgement. `why`: place -> reason."""
    places: dict[str, list[str]] = {}
    for place, reason in why.items():
        places.setdefault(reason, []).append(place)
    more = f"; and {len(places) - MOST_SAID} more" if len(places) > MOST_SAID else ""
    said = "; ".join(f"{', '.join(at)}: {reason}" for reason, at in list(places.items())[:MOST_SAID]) + more
    return pair.model_copy(
        update={
            "among": None,
            "cases": tuple(
                case.model_copy(
                    update={
                        "verdict": Verdict.DISTRUST,
                        "reason": said,
                        "settle": "",
                        "comparable": False,
                        "impossible": case.case in why,
                        "headline": None,
                        "speedups": (),
                        "pairs": 0,
                    }
                )
                for case in pair.cases
            ),
            "groups": tuple(
                each.model_copy(
                    update={
                        "verdict": Verdict.DISTRUST,
                        "reason": said,
                        "judged": (),
                        "speedups": (),
                        "range": None,
                        "next": None,
                    }
                )
                for each in pair.groups
            ),
        }
    )
