"""The arms of a run, measured: what an experiment and its run say of each, and what the records say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specdecode.analysis.context import RunContext
from specdecode.analysis.parts import BETTER, MetricInfo
from specdecode.experiment.model import Experiment, Variant
from specdecode.measures.arm import Key, Measured, Terms, by_arm, measure_arm
from specdecode.measures.metrics import ALL_METRICS
from specdecode.records import RequestRecord

METRICS: tuple[MetricInfo, ...] = tuple(
    MetricInfo(
        name=metric.tag,
        label=metric.title,
        unit=str(metric.unit),
        formula=metric.formula,
        better=BETTER[metric.direction],
    )
    for metric in ALL_METRICS
)
SPEEDUPS = ("request_output_throughput", "time_per_output_token", "end_to_end_latency", "ttft", "tokens_per_step")
"""Metrics that are compared between arms, the headline first."""
BY_NAME = {info.name: info for info in METRICS}


def measure(
    *, experiment: Experiment, records: Iterable[RequestRecord], context: RunContext
) -> tuple[dict[Key, Measured], list[Key]]:
    """Every arm and case of `experiment` that has records, in its order; and those that it does not know."""
    groups = by_arm(records)
    found = {
        (variant.name, case.name): measure_arm(
            groups[variant.name, case.name],
            terms=terms(experiment, variant, context),
            counters=[item for item in context.counters if (item.variant, item.case) == (variant.name, case.name)],
            slo=context.slo,
        )
        for variant in experiment.variants
        for case in experiment.workload.cases
        if (variant.name, case.name) in groups
    }
    return found, sorted(groups.keys() - found.keys())


def terms(experiment: Experiment, variant: Variant, context: RunContext) -> Terms:
    """K and price of an arm. A server that already ran and of which no k is known may speculate all the same."""
    if variant.speculation is not None:
        k: int | None = variant.speculation.num_speculative_tokens
    else:
        k = None if experiment.has_endpoints else 0
    if experiment.has_endpoints:
        return Terms(k=k, dollars_per_hour=variant.price_per_hour)
    price = context.price_per_node_hour
    return Terms(k=k, dollars_per_hour=None if price is None else price * node_share(experiment, context))


def node_share(experiment: Experiment, context: RunContext) -> float:
    """Part of the price that one arm bears: its devices over the node's (1 where there are none to share)."""
    devices = experiment.serving.devices
    return min(1.0, devices / context.devices_per_node) if devices else 1.0


Arms = Mapping[Key, Measured]
