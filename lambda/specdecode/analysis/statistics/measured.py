"""Measures every arm of a run: terms of the arm from the experiment, figures from the records. Arms that are served
with different settings are each compared at its own setting, and one setting is decided about (ADR 211).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from specdecode.analysis.results.pairs import MetricInfo, Pair
from specdecode.analysis.results.run_context import RunContext
from specdecode.analysis.statistics.verdict import MAX_FAILED, too_many_failed
from specdecode.experiment.model import Experiment
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.step import most_tokens
from specdecode.experiment.variants import Variant
from specdecode.experiment.workload import Level
from specdecode.measures.arm import Key, Measured, by_arm, measure_arm
from specdecode.measures.arm_case import ArmCase, Terms
from specdecode.measures.course import spans
from specdecode.measures.metrics import ALL_METRICS
from specdecode.measures.plausibility import late
from specdecode.records import EngineCounters, RequestRecord

METRICS: tuple[MetricInfo, ...] = tuple(
    MetricInfo(name=m.tag, label=m.title, unit=str(m.unit), formula=m.formula, better=m.direction) for m in ALL_METRICS
)
SPEEDUPS = ("request_output_throughput", "time_per_output_token", "end_to_end_latency", "ttft", "tokens_per_step")
"""Metrics that are compared between arms, the headline first."""
Arms = Mapping[Key, Measured]
BY_NAME = {info.name: info for info in METRICS}


@dataclass(frozen=True, kw_only=True)
class AtLevel:
    """All arms at one level."""

    level: Level
    arms: Arms
    """Arms and cases in the experiment's order."""
    unknown: tuple[Key, ...] = ()
    """Arms and cases with records that the experiment does not know."""


def measure(*, experiment: Experiment, records: Iterable[RequestRecord], context: RunContext) -> tuple[AtLevel, ...]:
    """Every arm and case that has records, level by level. Records of other levels are unknown ones of the first."""
    levels = experiment.workload.levels
    own: dict[str, list[RequestRecord]] = {level.name: [] for level in levels}
    strange: set[Key] = set()
    sent = defaultdict[str, list[tuple[int, float]]](list)
    for record in records:
        name = record.level or (levels[0].name if len(levels) == 1 else "")
        if name in own:
            own[name].append(record)
        elif not record.warmup:
            strange.add((record.variant, record.case))
        if not record.warmup:
            sent[record.variant].append((record.round, record.started_at))
    first, *others = (_measure_level(experiment, own[level.name], context, level, sent) for level in levels)
    return replace(first, unknown=tuple(sorted({*first.unknown, *strange}))), *others


def _measure_level(
    experiment: Experiment,
    records: Sequence[RequestRecord],
    context: RunContext,
    level: Level,
    sent: Mapping[str, Iterable[tuple[int, float]]],
) -> AtLevel:
    groups, load = by_arm(records), experiment.workload
    arms: dict[Key, Measured] = {}
    for variant in experiment.variants:
        known = replace(terms(experiment, variant, context), spans=spans(sent.get(variant.name, ())))
        behind = late([record for case in load.cases for record in groups.get((variant.name, case.name), ())])
        for case in load.cases:
            if own := groups.get((variant.name, case.name)):
                counters = _counters(experiment, variant, case.name, level, context)
                found = measure_arm(own, terms=known, counters=counters, slo=load.slo, rate=level.rate)
                fewer = 1 + max(record.index for record in own) < load.requests_of(case, level)
                early = load.requests.precision is not None and fewer
                late_too = found.arm.model_copy(update={"late": behind})
                arms[variant.name, case.name] = replace(found, arm=late_too, stopped_early=early)
    return AtLevel(level=level, arms=arms, unknown=tuple(sorted(groups.keys() - arms.keys())))


def _counters(
    experiment: Experiment, variant: Variant, case: str, level: Level, context: RunContext
) -> list[EngineCounters]:
    """Counters of the arm. Engines that verify k - 1 drafts have no true ones: vLLM 0.9.1's Neuron fork never fills
    them, and the plugin of 0.16 counts accepted tokens as drafted.
    """
    if most_tokens(experiment, variant) is MostTokens.K:
        return []
    levels = {level.name} if len(experiment.workload.levels) > 1 else {level.name, ""}
    return [
        item for item in context.counters if (item.variant, item.case) == (variant.name, case) and item.level in levels
    ]


def terms(experiment: Experiment, variant: Variant, context: RunContext) -> Terms:
    """The k of an arm (none if k depends on the load), most tokens of a step, and price."""
    price = context.price_per_node_hour
    one_k = not (variant.speculation and variant.speculation.num_speculative_tokens_per_batch_size)
    return Terms(
        k=variant.k,
        most=most_tokens(experiment, variant),
        one_k=one_k,
        every_step=one_k and variant.address is None,
        dollars_per_hour=variant.dollars_per_hour(None if price is None else price * node_share(experiment, context)),
    )


def node_share(experiment: Experiment, context: RunContext) -> float:
    """Share of the node's price for one arm: its devices over the node's. 1 if there are no devices to share."""
    devices = experiment.devices
    return min(1.0, devices / context.devices_per_node) if devices else 1.0


def lacking(arms: Iterable[ArmCase], *names: str) -> str:
    """Why arms are not known over all prompts of a load: one lacks a case that another of `arms` has, or too many of
    its requests failed. Empty if they are: the few cases in which others failed are left out.
    """
    found = {(each.variant, each.case): each for each in arms}
    for name in names:
        own = {case: found.get((name, case)) for _, case in found}
        if out := next((case for case, arm in own.items() if arm is None), ""):
            return f"{out}: {name} was not measured"
        there = [arm for arm in own.values() if arm]
        if sum(arm.failed for arm in there) > MAX_FAILED * sum(arm.requests for arm in there):
            return next(f"{arm.case}: {why}" for arm in there if (why := too_many_failed(arm)))
    return ""


def speeds(arms: Iterable[ArmCase]) -> dict[str, float]:
    """Output tokens a second of each arm's server, over the cases that all of them have."""
    found: dict[str, dict[str, ArmCase]] = {}
    for each in arms:
        if each.load_seconds > 0:
            found.setdefault(each.variant, {})[each.case] = each
    cases = set.intersection(*map(set, found.values())) if found else set()
    return {
        name: sum(own[case].output_tokens for case in cases) / fsum(own[case].load_seconds for case in cases)
        for name, own in found.items()
        if cases
    }


def chain_of(experiment: Experiment, name: str) -> list[str]:
    """The arm, before it the one that it is compared with, and so on to the first baseline."""
    found = [name]
    while (before := experiment.variant(found[0]).compare_to) is not None and before not in found:
        found.insert(0, before)
    return found


def at_fastest(experiment: Experiment, arms: Iterable[ArmCase], pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of the first baseline whose arms, or itself, have the one that writes most tokens a second. A setting
    has a first baseline of its own (the rule `same-serving`).
    """
    roots = {pair.variant: chain_of(experiment, pair.variant)[0] for pair in pairs}
    known = speeds(arms)
    trusted = [pair for pair in pairs if not pair.distrusted and {pair.variant, pair.baseline} <= known.keys()]
    if len(set(roots.values())) < 2 or not trusted:
        return list(pairs)
    best = max(trusted, key=lambda pair: max(known[pair.variant], known[pair.baseline]))
    return [pair for pair in pairs if roots[pair.variant] == roots[best.variant]]
