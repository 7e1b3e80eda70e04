"""Measures one arm in one case: every figure of it is computed here, from its records, and nowhere else."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from specdecode.experiment.workload import Slo
from specdecode.measures.arm_case import SAMPLES, ArmCase, StepBin, Terms, TurnFigures
from specdecode.measures.distribution import Often, mean, quantile, summarize, summarize_often
from specdecode.measures.drafted import by_chunks, gap, read_drafts
from specdecode.measures.metrics import BLOCK_METRICS, REQUEST_METRICS, SAMPLE_METRICS
from specdecode.measures.metrics.formulas import (
    acceptance_length,
    acceptance_rate,
    errors_by_kind,
    histogram,
    inter_token_latency,
    mean_tokens_per_step,
    output_throughput,
    time_per_output_token,
    tokens_per_step,
    ttft,
)
from specdecode.measures.metrics.metric import Block, Impossible, Metric, NoValue, Value
from specdecode.measures.plausibility import SOME, impossible_counts, unstreamed
from specdecode.records import Drafted, EngineCounters, RequestRecord
from specdecode.speculation.theory import acceptance_from_positions

SAMPLED = ("request_output_throughput", "time_per_output_token", "end_to_end_latency", "ttft")
"""Metrics with a distribution chart."""

Key = tuple[str, str]
"""Variant and case."""
Values = Mapping[str, Sequence[tuple[RequestRecord, float]]]
"""Tag of a request metric -> the completed requests that have a value, each with its value."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One arm in one case: its figures, and the single values and records behind them."""

    arm: ArmCase
    block: Block
    values: Values
    terms: Terms
    counters: Sequence[EngineCounters]
    stopped_early: bool = False
    """Fewer requests were sent than were allowed, since the first ones settled the question."""

    def within(self, rounds: Collection[int]) -> "Measured":
        """The arm in some of its rounds alone: all, if it was measured in none of them."""
        records = [record for record in self.block.records if record.round in rounds]
        if len(records) in (0, len(self.block.records)):
            return self
        counters = [each for each in self.counters if each.round in rounds]
        found = measure_arm(records, terms=self.terms, counters=counters, slo=self.block.slo, rate=self.block.rate)
        return replace(
            found, arm=found.arm.model_copy(update={"late": self.arm.late}), stopped_early=self.stopped_early
        )


def by_arm(records: Iterable[RequestRecord]) -> dict[Key, list[RequestRecord]]:
    """Measured records (no warm-up) by (variant, case), in the order sent."""
    groups: dict[Key, list[RequestRecord]] = defaultdict(list)
    for record in records:
        if not record.warmup:
            groups[record.variant, record.case].append(record)
    for group in groups.values():
        group.sort(key=lambda record: (record.round, record.index))
    return dict(groups)


def measure_arm(
    records: Sequence[RequestRecord],
    *,
    terms: Terms | None = None,
    counters: Sequence[EngineCounters] = (),
    slo: Slo | None = None,
    rate: float | None = None,
) -> Measured:
    """Every figure of one arm in one case. `records` (at least one) and `counters` are those of this arm and case,
    without warm-up. `rate`: requests sent a second, of an open loop.
    """
    terms = terms or Terms()
    drafts = read_drafts(records, counters, terms)
    found = drafts.found
    block = Block(records=records, slo=slo or Slo(), drafted=found, k=drafts.k, most=terms.most, rate=rate)
    values, samples, no_value, impossible = _of_requests(block)
    if drafts.own_counts_wrong and values.pop(acceptance_length.tag, []):
        no_value[acceptance_length.tag] = drafts.own_counts_wrong[0]
    totals, no_total = _totals(block)
    if drafts.unseen:  # its chunks are no steps, so that they tell nothing either
        totals.pop(acceptance_rate.tag, None)
        no_total[acceptance_rate.tag] = drafts.unseen[0]
    tokens, price = sum(record.completion_tokens or 0 for record in block.completed), terms.dollars_per_hour
    counts = histogram(block.completed) if tokens_per_step.tag in values else {}
    chunks = sum(counts.values())
    has_acceptance = acceptance_rate.tag in totals
    if not found and has_acceptance and counts:
        found = by_chunks(counts, block.verified)
    metrics = {tag: summarize([value for _, value in each]) for tag, each in values.items()}
    metrics |= {tag: summarize_often(each) for tag, each in samples.items()}
    arm = ArmCase(
        variant=records[0].variant,
        case=records[0].case,
        requests=len(records),
        completed=len(block.completed),
        failed=len(records) - len(block.completed),
        errors=errors_by_kind(block),
        output_tokens=tokens,
        load_seconds=block.load_s,
        cost_per_million=price / 3600.0 * block.load_s / tokens * 1e6
        if price is not None and totals.get(output_throughput.tag)  # else tokens or their time say nothing
        else None,
        metrics=metrics,
        totals=totals,
        no_value=no_value | no_total,
        impossible=(*impossible, *drafts.doubts, *impossible_counts(block.completed), *unstreamed(block.completed)),
        samples={tag: _sample([value for _, value in values[tag]]) for tag in SAMPLED if tag in values},
        steps=tuple(StepBin(tokens=tokens, share=count / chunks) for tokens, count in counts.items()),
        acceptance_source=drafts.source if has_acceptance else None,
        acceptance_length=_acceptance_length(block, found) if has_acceptance else None,
        turns=_by_turn(records),
        drafted_by_answers=drafts.by_answers,
        drafted_by_counters=drafts.by_counters,
        drafted_gap=gap(drafts.by_answers, drafts.by_counters, len(records) - len(block.completed)),
        verified_drafts=block.verified,
        accepted_per_position=acceptance_from_positions(found.accepted_per_position, found.drafts)
        if found and terms.one_k
        else (),
    )
    return Measured(arm=arm, block=block, values=values, terms=terms, counters=counters)


def _of_requests(
    block: Block,
) -> tuple[dict[str, list[tuple[RequestRecord, float]]], dict[str, list[Often]], dict[str, str], list[str]]:
    """Of the request metrics and sample metrics: tag -> values of the first kind, each with its record; of the second
    kind; why a metric has none; and figures that no server can reach, in words. If one request has an impossible value,
    its metric has no value at all: the other requests would be no fair sample. If more than SOME of them have, so has
    the arm.
    """
    no_value: dict[str, str] = {}
    impossible: dict[str, str] = {}
    told: list[str] = []

    def computed(metric: Metric[RequestRecord, Value]) -> list[tuple[RequestRecord, Value]]:
        found, why, wrong = [], "no completed request", []
        for record in block.completed:
            try:
                found.append((record, metric.value(record)))
            except Impossible as error:
                wrong.append(str(error))
            except NoValue as error:
                why = str(error)
        if wrong:
            impossible[metric.tag] = wrong[0]
            told.extend(wrong[:1] if len(wrong) > SOME * len(block.completed) else [])
        no_value[metric.tag] = why
        return found

    values = {metric.tag: computed(metric) for metric in REQUEST_METRICS}
    samples = {metric.tag: [one for _, each in computed(metric) for one in each] for metric in SAMPLE_METRICS}
    try:
        mean_tokens_per_step(block)
    except Impossible as error:
        impossible[tokens_per_step.tag] = str(error)
        told.append(str(error))
    except NoValue:
        pass
    if why := impossible.get(time_per_output_token.tag):  # the gaps between tokens come from the same wrong counts
        impossible[inter_token_latency.tag] = why
    values = {tag: found for tag, found in values.items() if found and tag not in impossible}
    samples = {tag: found for tag, found in samples.items() if found and tag not in impossible}
    reasons = {tag: why for tag, why in (no_value | impossible).items() if tag not in values and tag not in samples}
    return values, samples, reasons, told


def _totals(block: Block) -> tuple[dict[str, float], dict[str, str]]:
    """Tag of a block metric -> its value; tag -> why it has none."""
    totals: dict[str, float] = {}
    no_value: dict[str, str] = {}
    for metric in BLOCK_METRICS:
        try:
            totals[metric.tag] = metric.value(block)
        except NoValue as error:
            no_value[metric.tag] = str(error)
    return totals, no_value


def _acceptance_length(block: Block, found: Drafted | None) -> float:
    """1 + accepted / drafts. Mean tokens per step if only the chunks tell."""
    return 1 + found.accepted_tokens / found.drafts if found and found.drafts else mean_tokens_per_step(block)


def _sample(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= SAMPLES:
        return tuple(values)
    ordered = sorted(values)
    return tuple(quantile(ordered, number / (SAMPLES - 1)) for number in range(SAMPLES))


def _by_turn(records: Sequence[RequestRecord]) -> tuple[TurnFigures, ...]:
    """Figures of each turn. Empty if no prompt has a second turn."""
    if not any(record.turn for record in records):
        return ()
    groups: dict[int, list[tuple[RequestRecord, float]]] = defaultdict(list)
    for record in records:
        if record.error is None and (seconds := ttft.known(record)) is not None:
            groups[record.turn].append((record, seconds))
    return tuple(
        TurnFigures(
            turn=turn + 1,
            ttft=summarize([seconds for _, seconds in found]),
            prompt_tokens=_mean_count([record.prompt_tokens for record, _ in found]),
            cached_tokens=_mean_count([record.cached_tokens for record, _ in found]),
        )
        for turn, found in sorted(groups.items())
    )


def _mean_count(counts: Sequence[int | None]) -> float | None:
    known = [float(count) for count in counts if count is not None]
    return mean(known) if len(known) == len(counts) else None
