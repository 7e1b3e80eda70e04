"""What each arm did in each case, from its records alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from specdecode.analysis.context import EngineCounters, RunContext
from specdecode.analysis.metrics import METRICS
from specdecode.analysis.result import ArmCase, StepBin, Summary
from specdecode.analysis.statistics import mean, quantile, stddev
from specdecode.benchmark.metrics import AcceptanceRate, Block, NoValue
from specdecode.benchmark.metrics.tokens_per_step import histogram
from specdecode.benchmark.records import RequestRecord
from specdecode.experiment.model import Experiment, Variant
from specdecode.speculation import acceptance_from_positions

SAMPLES = 50
"""Most values kept of one metric for the distribution charts: beyond it, that many of its quantiles."""

SAMPLED = ("request_output_throughput", "time_per_output_token", "end_to_end_latency", "ttft")

Key = tuple[str, str]


def by_arm(records: Iterable[RequestRecord]) -> dict[Key, list[RequestRecord]]:
    """Measured records (no warm-up) by (variant, case), in the order sent."""
    groups: dict[Key, list[RequestRecord]] = defaultdict(list)
    for record in records:
        if not record.warmup:
            groups[record.variant, record.case].append(record)
    for group in groups.values():
        group.sort(key=lambda record: (record.round, record.index))
    return dict(groups)


def busy_seconds(records: Iterable[RequestRecord]) -> float:
    """Length of the union of the requests' [sent, end] intervals, in seconds, over each process that measured.

    Rounds and resumed sessions are processes of their own, whose monotonic clocks cannot be compared.
    """
    spans: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for record in records:
        spans[record.round, record.session].append((record.sent_s, record.sent_s + record.end_s))
    total = 0.0
    for intervals in spans.values():
        end = float("-inf")
        for start, stop in sorted(intervals):
            total += max(0.0, stop - max(start, end))
            end = max(end, stop)
    return total


def summarize(values: Sequence[float]) -> Summary:
    """Moments and percentiles of one metric."""
    return Summary(
        n=len(values),
        mean=mean(values),
        stddev=stddev(values),
        min=min(values),
        p25=quantile(values, 0.25),
        p50=quantile(values, 0.50),
        p75=quantile(values, 0.75),
        p90=quantile(values, 0.90),
        p95=quantile(values, 0.95),
        p99=quantile(values, 0.99),
        max=max(values),
    )


def node_share(experiment: Experiment, context: RunContext) -> float:
    """Part of the price that one arm bears: its devices over the node's (1 where there are none to share)."""
    devices = experiment.serving.devices
    return min(1.0, devices / context.devices_per_node) if devices else 1.0


def cost_per_million(*, price: float, share: float, busy: float, tokens: int) -> float:
    """Dollars per million output tokens: price/3600 * share * busy seconds / output tokens * 1e6."""
    return price / 3600.0 * share * busy / tokens * 1e6


def describe_arm(
    *,
    experiment: Experiment,
    variant: Variant,
    case: str,
    records: Sequence[RequestRecord],
    context: RunContext,
) -> ArmCase:
    """Counts, metrics, throughput, cost and acceptance of one arm in one case."""
    done = [record for record in records if record.error is None]
    values: dict[str, list[float]] = {}
    for metric in METRICS:
        found = [value for record in done if (value := metric.of(record)) is not None]
        if found:
            values[metric.info.name] = found
    tokens = sum(record.completion_tokens or 0 for record in done)
    busy = busy_seconds(records)
    price = variant.price_per_hour if experiment.has_endpoints else context.price_per_node_hour
    rate, source, positions = _acceptance(variant=variant, case=case, records=done, counters=context.counters)
    return ArmCase(
        variant=variant.name,
        case=case,
        requests=len(records),
        completed=len(done),
        failed=len(records) - len(done),
        errors=dict(sorted(Counter(record.error.kind.value for record in records if record.error).items())),
        output_tokens=tokens,
        busy_seconds=busy,
        output_throughput=tokens / busy if busy > 0 and tokens else None,
        cost_per_million=cost_per_million(
            price=price,
            share=node_share(experiment, context),
            busy=busy,
            tokens=tokens,
        )
        if price is not None and tokens
        else None,
        metrics={name: summarize(found) for name, found in values.items()},
        samples={name: _sample(values[name]) for name in SAMPLED if name in values},
        steps=_steps(done),
        acceptance_rate=rate,
        acceptance_source=source,
        accepted_per_position=positions,
    )


def _sample(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= SAMPLES:
        return tuple(values)
    return tuple(quantile(values, number / (SAMPLES - 1)) for number in range(SAMPLES))


def _steps(records: Sequence[RequestRecord]) -> tuple[StepBin, ...]:
    """Tokens per engine step; empty where the server does not count tokens with every chunk."""
    counts = histogram(records)
    total = sum(counts.values())
    return tuple(StepBin(tokens=tokens, share=count / total) for tokens, count in counts.items())


def _acceptance(
    *,
    variant: Variant,
    case: str,
    records: Sequence[RequestRecord],
    counters: Sequence[EngineCounters],
) -> tuple[float | None, str | None, tuple[float, ...]]:
    """Draft acceptance rate, where it is from, and the conditional rate at each position."""
    own = [item for item in counters if item.trusted and item.variant == variant.name and item.case == case]
    drafted = sum(item.draft_tokens for item in own)
    if drafted:
        width = max(len(item.accepted_per_position) for item in own)
        positions = [
            sum(item.accepted_per_position[i] for item in own if i < len(item.accepted_per_position))
            for i in range(width)
        ]
        return (
            sum(item.accepted_tokens for item in own) / drafted,
            "engine counters",
            acceptance_from_positions(positions, sum(item.drafts for item in own)),
        )
    if variant.speculation is None:
        return None, None, ()
    block = Block(records=records, speculative_tokens=variant.speculation.num_speculative_tokens)
    try:
        rate = AcceptanceRate.block_value(block)
    except NoValue:
        return None, None, ()
    return max(0.0, min(1.0, rate)), "estimated from tokens per streamed chunk", ()
