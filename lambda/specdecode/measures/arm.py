"""What one arm did in one case, from its records: every figure of it, computed here and nowhere else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from specdecode.experiment.base import Frozen
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.slo import Slo
from specdecode.measures.counters import counted, other_k
from specdecode.measures.distribution import Count, Summary, quantile, summarize
from specdecode.measures.drafts import ANSWERS, COUNTERS, ESTIMATED, by_answers, by_chunks, gap
from specdecode.measures.metric import Block, Impossible, NoValue
from specdecode.measures.metrics import (
    BLOCK_METRICS,
    REQUEST_METRICS,
    SAMPLE_METRICS,
    AcceptanceLength,
    AcceptanceRate,
    ErrorRate,
    InterTokenLatency,
    OutputThroughput,
    TimePerOutputToken,
    TokensPerStep,
)
from specdecode.measures.metrics.tokens_per_step import histogram, mean_tokens_per_step
from specdecode.measures.turns import TurnFigures, by_turn
from specdecode.records import Drafted, EngineCounters, RequestRecord
from specdecode.speculation import acceptance_from_positions

SAMPLES = 50
"""Most values kept of one metric for the distribution charts: beyond it, that many of its quantiles."""
SAMPLED = ("request_output_throughput", "time_per_output_token", "end_to_end_latency", "ttft")

Key = tuple[str, str]
"""Variant and case."""
Values = Mapping[str, Sequence[tuple[RequestRecord, float]]]
"""Tag of a request metric -> completed requests that have a value, each with it."""


class StepBin(Frozen):
    """Share of streamed chunks (engine steps) that carried this many tokens."""

    tokens: Count
    share: float


class ArmCase(Frozen):
    """What one arm did in one case."""

    variant: str
    case: str
    requests: Count
    completed: Count
    failed: Count
    errors: dict[str, Count]
    """Kind of error -> requests that ended so, most frequent first."""
    output_tokens: Count
    load_seconds: float
    """First send to last end (measures/load_time.py)."""
    cost_per_million: float | None
    metrics: dict[str, Summary]
    """Of each metric with one value or more a request."""
    totals: dict[str, float]
    """Of each metric with one value for all requests."""
    no_value: dict[str, str]
    """Metrics without a value, and why."""
    impossible: tuple[str, ...] = ()
    """Figures that no server can reach, in words; they have no value."""
    samples: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Per-request values for the distribution charts (at most SAMPLES quantiles of them)."""
    steps: tuple[StepBin, ...] = ()
    acceptance_source: str | None = None
    """What `acceptance_length`, the acceptance rate and `accepted_per_position` are from, in words."""
    acceptance_length: float | None = None
    """Mean tokens of a step that had drafts: 1 + accepted / drafts. At most k + 1, or k on an engine that verifies
    k - 1 drafts; None where the arm drafts nothing, or nothing tells."""
    drafted_by_answers: Drafted | None = None
    """Sum of what the completed answers say of their own drafts, where all of them do."""
    drafted_by_counters: Drafted | None = None
    """What the engine's counters say of the same requests, where they are whole and can be believed."""
    drafted_gap: str = ""
    """By how much the two differ, in words; empty where they are equal, or one of them is missing."""
    verified_drafts: Count | None = None
    """Drafts that a step verifies: tokens per step are at most one more. None where k is not known."""
    accepted_per_position: tuple[float, ...] = ()
    """Acceptance at each position, given that those before were accepted."""
    turns: tuple[TurnFigures, ...] = ()
    """Of conversations; empty where each prompt is one of its own."""

    @property
    def output_throughput(self) -> float | None:
        """Tokens per second of the arm at the measured load."""
        return self.totals.get(OutputThroughput.tag)

    @property
    def acceptance_lengths(self) -> Summary | None:
        """Of the single requests: as each answer says it of itself, else tokens per streamed chunk; None where the arm
        drafts nothing, or nothing tells.
        """
        if self.acceptance_length is None:
            return None
        return self.metrics.get(AcceptanceLength.tag) or self.metrics.get(TokensPerStep.tag)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted tokens; None where there is no draft or nothing to tell it from."""
        return self.totals.get(AcceptanceRate.tag)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One arm in one case: its figures, and the single values and records behind them."""

    arm: ArmCase
    block: Block
    values: Values
    stopped_early: bool = False
    """Fewer requests were sent than were allowed, as what was measured settled the question."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What must be known of an arm beside its records."""

    k: int | None = None
    """Tokens that a step drafts; 0 without speculation, None where it is not known."""
    most: MostTokens = MostTokens.K_PLUS_1
    """What the engine yields at most for that k."""
    every_step: bool = True
    """Each step drafts k tokens; not where k goes by the load."""
    dollars_per_hour: float | None = None
    """Price of what the arm holds; None: no cost."""


def by_arm(records: Iterable[RequestRecord]) -> dict[Key, list[RequestRecord]]:
    """Measured records (no warm-up) by (variant, case), in the order sent."""
    groups: dict[Key, list[RequestRecord]] = defaultdict(list)
    for record in records:
        if not record.warmup:
            groups[record.variant, record.case].append(record)
    for group in groups.values():
        group.sort(key=lambda record: (record.unit, record.round, record.index))
    return dict(groups)


def cost_per_million(*, dollars_per_hour: float, seconds: float, tokens: int) -> float:
    """Dollars per million output tokens: price / 3600 * seconds of load / output tokens * 1e6."""
    return dollars_per_hour / 3600.0 * seconds / tokens * 1e6


def measure_arm(
    records: Sequence[RequestRecord],
    *,
    terms: Terms | None = None,
    counters: Sequence[EngineCounters] = (),
    slo: Slo | None = None,
) -> Measured:
    """Every figure of one arm in one case. `records` (one at least) and `counters`: its own, without warm-up."""
    terms = terms or Terms()
    believed = terms.most is MostTokens.K_PLUS_1
    counts, doubts = counted(counters, records, every_step=terms.every_step)
    answers, contradicted = by_answers(records, every_step=terms.every_step) if believed else (None, [])
    doubts += contradicted
    k = terms.k
    if wrong := other_k([*counters, *([answers] if answers else [])], k):
        counts, answers, doubts, k = None, None, [*doubts, wrong], None
    found = counts or answers
    block = Block(
        records=records,
        slo=slo or Slo(),
        drafted_tokens=found.draft_tokens if found else None,
        accepted_tokens=found.accepted_tokens if found else None,
        source=COUNTERS if counts else ANSWERS if answers else ESTIMATED,
        k=k,
        most=terms.most,
    )
    values, samples, no_value, impossible = _values(block)
    disbelieved = [] if believed else ["what the answers of such an engine say of their drafts is not believed"]
    disbelieved += [*contradicted, *([wrong] if wrong else [])]
    if disbelieved and values.pop(AcceptanceLength.tag, []):
        no_value[AcceptanceLength.tag] = disbelieved[0]
    totals: dict[str, float] = {}
    for block_metric in BLOCK_METRICS:
        try:
            totals[block_metric.tag] = block_metric.block_value(block)
        except NoValue as error:
            no_value[block_metric.tag] = str(error)
    tokens = sum(record.completion_tokens or 0 for record in block.completed)
    price = terms.dollars_per_hour
    steps = _steps(block) if TokensPerStep.tag in values else ()
    if not found and AcceptanceRate.tag in totals:
        found = by_chunks(histogram(block.completed), block.verified) if steps else None
    metrics = {tag: summarize([value for _, value in found]) for tag, found in values.items()}
    metrics |= {tag: summarize(each) for tag, each in samples.items()}
    arm = ArmCase(
        variant=records[0].variant,
        case=records[0].case,
        requests=len(records),
        completed=len(block.completed),
        failed=len(records) - len(block.completed),
        errors=ErrorRate.by_kind(block),
        output_tokens=tokens,
        load_seconds=block.load_s,
        cost_per_million=cost_per_million(dollars_per_hour=price, seconds=block.load_s, tokens=tokens)
        if price is not None and tokens
        else None,
        metrics=metrics,
        totals=totals,
        no_value=no_value,
        impossible=(*impossible, *doubts),
        samples={tag: _sample([value for _, value in values[tag]]) for tag in SAMPLED if tag in values},
        steps=steps,
        acceptance_source=block.source if AcceptanceRate.tag in totals else None,
        acceptance_length=_acceptance_length(block, found) if AcceptanceRate.tag in totals else None,
        turns=by_turn(records),
        drafted_by_answers=answers,
        drafted_by_counters=counts,
        drafted_gap=gap(answers, counts, len(records) - len(block.completed)),
        verified_drafts=block.verified,
        accepted_per_position=acceptance_from_positions(found.accepted_per_position, found.drafts)
        if found and terms.every_step
        else (),
    )
    return Measured(arm=arm, block=block, values=values)


def _acceptance_length(block: Block, found: Drafted | None) -> float:
    """1 + accepted / drafts; tokens per step where only the mean of the chunks tells."""
    return 1 + found.accepted_tokens / found.drafts if found and found.drafts else mean_tokens_per_step(block)


def _values(
    block: Block,
) -> tuple[dict[str, list[tuple[RequestRecord, float]]], dict[str, list[float]], dict[str, str], list[str]]:
    """Values of the request metrics with their records, of the sample metrics; why others have none; the impossible."""
    values: dict[str, list[tuple[RequestRecord, float]]] = {}
    samples: dict[str, list[float]] = {}
    no_value: dict[str, str] = {}
    impossible: dict[str, str] = {}
    for record in block.completed:
        for metric in REQUEST_METRICS:
            try:
                values.setdefault(metric.tag, []).append((record, metric.value(record)))
            except Impossible as error:
                impossible.setdefault(metric.tag, str(error))
            except NoValue as error:
                no_value[metric.tag] = str(error)
        for sample_metric in SAMPLE_METRICS:
            try:
                samples.setdefault(sample_metric.tag, []).extend(sample_metric.values(record))
            except NoValue as error:
                no_value[sample_metric.tag] = str(error)
    try:
        mean_tokens_per_step(block)
    except Impossible as error:
        impossible[TokensPerStep.tag] = str(error)
    except NoValue:
        pass
    for tag, why in impossible.items():  # what is left of the requests would be no fair sample
        values.pop(tag, None)
        no_value[tag] = why
        if tag == TimePerOutputToken.tag:
            samples.pop(InterTokenLatency.tag, None)
            no_value[InterTokenLatency.tag] = why
    known = {tag for tag, found in (*values.items(), *samples.items()) if found}
    tags = [metric.tag for metric in (*REQUEST_METRICS, *SAMPLE_METRICS)]
    reasons = {tag: no_value.get(tag, "no completed request") for tag in tags if tag not in known}
    return (
        {tag: found for tag, found in values.items() if found},
        {tag: each for tag, each in samples.items() if each},
        reasons,
        list(impossible.values()),
    )


def _sample(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= SAMPLES:
        return tuple(values)
    ordered = sorted(values)
    return tuple(quantile(ordered, number / (SAMPLES - 1)) for number in range(SAMPLES))


def _steps(block: Block) -> tuple[StepBin, ...]:
    """Tokens per engine step; empty where the server does not count tokens with every chunk."""
    counts = histogram(block.completed)
    total = sum(counts.values())
    return tuple(StepBin(tokens=tokens, share=count / total) for tokens, count in counts.items())
