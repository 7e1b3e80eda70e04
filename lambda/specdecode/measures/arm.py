"""Measures one arm in one case: every figure of it is computed here, from its records, and nowhere else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.slo import Slo
from specdecode.measures.arm_case import SAMPLES, ArmCase, StepBin
from specdecode.measures.counters import counted, other_k
from specdecode.measures.distribution import quantile, summarize
from specdecode.measures.drafts import ANSWERS, COUNTERS, ESTIMATED, by_answers, by_chunks, gap
from specdecode.measures.metric import Block, NoValue
from specdecode.measures.metrics import BLOCK_METRICS, AcceptanceLength, AcceptanceRate, ErrorRate, TokensPerStep
from specdecode.measures.metrics.tokens_per_step import histogram, mean_tokens_per_step
from specdecode.measures.request_values import Values, request_values
from specdecode.measures.turns import by_turn
from specdecode.records import Drafted, EngineCounters, RequestRecord
from specdecode.speculation import acceptance_from_positions

SAMPLED = ("request_output_throughput", "time_per_output_token", "end_to_end_latency", "ttft")
"""Metrics with a distribution chart."""

Key = tuple[str, str]
"""Variant and case."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One arm in one case: its figures, and the single values and records behind them."""

    arm: ArmCase
    block: Block
    values: Values
    stopped_early: bool = False
    """Fewer requests were sent than were allowed, since the first ones settled the question."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is known of an arm beside its records."""

    k: int | None = None
    """Tokens that a step drafts. 0 without speculation, None if it is not known."""
    most: MostTokens = MostTokens.K_PLUS_1
    """Most tokens that a step of the engine yields with that k."""
    every_step: bool = True
    """Each step drafts k tokens. False if k depends on the load."""
    dollars_per_hour: float | None = None
    """Price of the devices that the arm holds. None: the arm has no cost."""


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
    """Every figure of one arm in one case.

    `records` (at least one) and `counters` are those of this arm and case, without warm-up.
    """
    terms = terms or Terms()
    drafts = _drafts(records, counters, terms)
    block = Block(
        records=records,
        slo=slo or Slo(),
        drafted_tokens=drafts.found.draft_tokens if drafts.found else None,
        accepted_tokens=drafts.found.accepted_tokens if drafts.found else None,
        source=drafts.source,
        k=drafts.k,
        most=terms.most,
    )
    of_requests = request_values(block)
    values, no_value = of_requests.values, of_requests.no_value
    if drafts.own_counts_wrong and values.pop(AcceptanceLength.tag, []):
        no_value[AcceptanceLength.tag] = drafts.own_counts_wrong[0]
    totals, no_total = _totals(block)
    tokens = sum(record.completion_tokens or 0 for record in block.completed)
    steps = _steps(block) if TokensPerStep.tag in values else ()
    has_acceptance = AcceptanceRate.tag in totals
    found = drafts.found
    if not found and has_acceptance and steps:
        found = by_chunks(histogram(block.completed), block.verified)
    metrics = {tag: summarize([value for _, value in each]) for tag, each in values.items()}
    metrics |= {tag: summarize(each) for tag, each in of_requests.samples.items()}
    arm = ArmCase(
        variant=records[0].variant,
        case=records[0].case,
        requests=len(records),
        completed=len(block.completed),
        failed=len(records) - len(block.completed),
        errors=ErrorRate.by_kind(block),
        output_tokens=tokens,
        load_seconds=block.load_s,
        cost_per_million=_cost(terms.dollars_per_hour, block.load_s, tokens),
        metrics=metrics,
        totals=totals,
        no_value=no_value | no_total,
        impossible=(*of_requests.impossible, *drafts.doubts),
        samples={tag: _sample([value for _, value in values[tag]]) for tag in SAMPLED if tag in values},
        steps=steps,
        acceptance_source=block.source if has_acceptance else None,
        acceptance_length=_acceptance_length(block, found) if has_acceptance else None,
        turns=by_turn(records),
        drafted_by_answers=drafts.by_answers,
        drafted_by_counters=drafts.by_counters,
        drafted_gap=gap(drafts.by_answers, drafts.by_counters, len(records) - len(block.completed)),
        verified_drafts=block.verified,
        accepted_per_position=acceptance_from_positions(found.accepted_per_position, found.drafts)
        if found and terms.every_step
        else (),
    )
    return Measured(arm=arm, block=block, values=values)


@dataclass(frozen=True, kw_only=True)
class _Drafts:
    """Drafted and accepted tokens of an arm and case, by each source."""

    by_counters: Drafted | None
    by_answers: Drafted | None
    doubts: list[str]
    """Why a source is not used, in words."""
    own_counts_wrong: list[str]
    """Why the single answers' own counts are not used, in words."""
    k: int | None
    """As in `Terms`. None if the engine drafts with another k than was said."""

    @property
    def found(self) -> Drafted | None:
        """The engine's counters, else the sum of the answers' own counts."""
        return self.by_counters or self.by_answers

    @property
    def source(self) -> str:
        return COUNTERS if self.by_counters else ANSWERS if self.by_answers else ESTIMATED


def _drafts(records: Sequence[RequestRecord], counters: Sequence[EngineCounters], terms: Terms) -> _Drafts:
    """Read both sources and leave out those that contradict the answers or the k of the arm."""
    by_counters, doubts = counted(counters, records, every_step=terms.every_step)
    believed = terms.most is MostTokens.K_PLUS_1
    own, contradicted = by_answers(records, every_step=terms.every_step) if believed else (None, [])
    own_counts_wrong = [] if believed else ["what the answers of such an engine say of their drafts is not believed"]
    wrong = other_k([*counters, *([own] if own else [])], terms.k)
    other = [wrong] if wrong else []
    return _Drafts(
        by_counters=None if wrong else by_counters,
        by_answers=None if wrong else own,
        doubts=[*doubts, *contradicted, *other],
        own_counts_wrong=[*own_counts_wrong, *contradicted, *other],
        k=None if wrong else terms.k,
    )


def _totals(block: Block) -> tuple[dict[str, float], dict[str, str]]:
    """Tag of a block metric -> its value; tag -> why it has none."""
    totals: dict[str, float] = {}
    no_value: dict[str, str] = {}
    for metric in BLOCK_METRICS:
        try:
            totals[metric.tag] = metric.block_value(block)
        except NoValue as error:
            no_value[metric.tag] = str(error)
    return totals, no_value


def _cost(dollars_per_hour: float | None, seconds: float, tokens: int) -> float | None:
    if dollars_per_hour is None or not tokens:
        return None
    return cost_per_million(dollars_per_hour=dollars_per_hour, seconds=seconds, tokens=tokens)


def _acceptance_length(block: Block, found: Drafted | None) -> float:
    """1 + accepted / drafts. Mean tokens per step if only the chunks tell."""
    return 1 + found.accepted_tokens / found.drafts if found and found.drafts else mean_tokens_per_step(block)


def _sample(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= SAMPLES:
        return tuple(values)
    ordered = sorted(values)
    return tuple(quantile(ordered, number / (SAMPLES - 1)) for number in range(SAMPLES))


def _steps(block: Block) -> tuple[StepBin, ...]:
    """Tokens per engine step. Empty if the server does not count tokens with every chunk."""
    counts = histogram(block.completed)
    total = sum(counts.values())
    return tuple(StepBin(tokens=tokens, share=count / total) for tokens, count in counts.items())
