"""A run on several nodes: the difference between its nodes, and when the report has a note on it (ADR 190).

Every arm is compared with the baseline of its own node, so that differences between nodes cancel in a speed-up.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from specdecode.analysis.results.comparison import HEADLINE, ArmCase, Estimate, Pair
from specdecode.analysis.results.context import RunContext
from specdecode.analysis.results.nodes_result import PartResult
from specdecode.analysis.results.numbers import times
from specdecode.analysis.statistics.drift import measured_on
from specdecode.analysis.statistics.measured import Arms, AtLevel
from specdecode.analysis.statistics.node_noise import DIFFER, Logs, of_baseline, told_by
from specdecode.analysis.statistics.verdict import estimate
from specdecode.analysis.texts.recommend import chosen
from specdecode.experiment.model import Experiment
from specdecode.measures.distribution import mean
from specdecode.measures.observations import Asked, differences
from specdecode.measures.student import combine, over_prompts

NOT_SMALL = 0.5
"""Nodes get a note if they differ by more than this part of the effect, on the log scale. A choice of ours."""
BEYOND = 2.0
"""Nodes get a note if they differ by more than so many times what is assumed: two that differ as assumed do so in 5% of
the runs. Where nodes differ by 10% and arms by half of it, a fifth of the verdicts is wrong (how-sure.md in the docs).
"""
METHOD = (
    "Student's t on the log-ratio of paired prompts, this node over the mean of the others; of the measured prompts"
)


def parts_of(experiment: Experiment, at: AtLevel, context: RunContext) -> tuple[PartResult, ...]:
    """Each part of a run on several nodes. Empty for a run on one node."""
    if not at.units:
        return ()
    on = {variant.name: measured_on(at.arms, variant.name) for variant in experiment.variants}
    baseline, logs = told_by(at), of_baseline(at)
    names = {part.unit: part.node for part in context.parts}
    return tuple(
        PartResult(
            unit=unit,
            node=names.get(unit, ""),
            variants=tuple(name for name, units in on.items() if unit in units),
            baseline=baseline,
            tokens_per_second=_tokens_per_second(unit, logs),
            against_others=_against_others(unit, logs),
        )
        for unit in at.units
    )


def elsewhere_too(at: AtLevel, both: Arms) -> tuple[ArmCase, ...]:
    """Figures of compared arms from the nodes that measured both, for arms that other nodes measured too."""
    return tuple(
        each.arm.model_copy(update={"samples": {}})
        for key, each in both.items()
        if len(each.block.records) < len(at.arms[key].block.records)
    )


def about_nodes(parts: Sequence[PartResult], pairs: Sequence[Pair]) -> Iterator[str]:
    """How to read the figures of several nodes; and a note that the nodes differ, if that is shown and not small."""
    if not parts:
        return
    baseline = parts[0].baseline
    shared = sum(baseline in part.variants for part in parts)
    yield (
        f"Measured in {len(parts)} parts, each on a node of its own: every speed-up is against the baseline that the "
        f"same node measured, and its interval is made wider by half of what nodes differ by ({DIFFER:.0%} is assumed, "
        f"and gives way to what these nodes show). Figures of {baseline} alone are over all {shared} nodes that "
        "measured it."
    )
    if (apart := _apart(parts)) > BEYOND * DIFFER:
        yield (
            f"These nodes differ by {apart:.0%}, far more than the {DIFFER:.0%} that intervals begin with: if an arm "
            "gains or loses half of that on its node alone, more than 5% of the verdicts are wrong. Measure what you "
            "decide by once more on other nodes, then specdecode compare RUN RUN, and look at the slow node."
        )
    shown = [(part, found) for part in parts if (found := part.against_others) and _is_shown(found)]
    gain = chosen(pairs).group("all") if pairs else None
    if not shown or gain is None or gain.headline is None:
        return
    part, found = max(shown, key=lambda item: abs(math.log(item[1].ratio)))
    if abs(math.log(found.ratio)) >= NOT_SMALL * abs(math.log(gain.headline.ratio)):
        yield (
            f"The nodes differ, and the difference is not small against the effect: {baseline} is "
            f"{found.ratio - 1:+.1%} on {part.label} against the others, and the speed-up is "
            f"{times(gain.headline.ratio)}. No speed-up contains this difference. But an arm may gain more or less on "
            "another node: before you trust a small difference between arms of two nodes, measure both on one."
        )


def _apart(parts: Sequence[PartResult]) -> float:
    """Standard deviation of the nodes' ln(tokens/s), from what each has over the mean of the n - 1 others."""
    found = [math.log(part.against_others.ratio) for part in parts if part.against_others]
    n = len(found)
    return math.sqrt(math.fsum((each * (n - 1) / n) ** 2 for each in found) / (n - 1)) if n > 1 else 0.0


def _is_shown(found: Estimate) -> bool:
    return found.low is not None and found.high is not None and not found.low <= 1.0 <= found.high


def _tokens_per_second(unit: int, cases: Sequence[Mapping[int, Logs]]) -> float | None:
    own = [mean(list(logs[unit].values())) for logs in cases if unit in logs]
    return math.exp(mean(own)) if own else None


def _against_others(unit: int, cases: Sequence[Mapping[int, Logs]]) -> Estimate | None:
    found = [over_prompts(values) for logs in cases if (values := differences(_others(unit, logs), logs.get(unit, {})))]
    return estimate(HEADLINE, combine(found, [1.0 / len(found)] * len(found)), method=METHOD) if found else None


def _others(unit: int, logs: Mapping[int, Logs]) -> dict[Asked, float]:
    """Prompt -> mean over the other parts."""
    values: dict[Asked, list[float]] = defaultdict(list)
    for other, own in logs.items():
        for asked, value in own.items() if other != unit else ():
            values[asked].append(value)
    return {asked: mean(each) for asked, each in values.items()}
