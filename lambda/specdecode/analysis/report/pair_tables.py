"""Tables of arms beside their baselines: by prompt type, by metric, by arm, by draft and k, by change."""

import re
from collections.abc import Iterator, Sequence

from specdecode.analysis.advice.sweep import speculative
from specdecode.analysis.report.blocks import SPEEDUP, Cell, Column, ReportTable
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE, Number, compact, digits, dollars, figure, gain, ratio
from specdecode.analysis.results.pairs import CaseResult, Chain, GroupResult, MetricInfo, Pair, kind_of
from specdecode.analysis.statistics.groups import figure as figure_of
from specdecode.analysis.statistics.measured import at_fastest, speeds
from specdecode.analysis.texts.decide import decided
from specdecode.escape import counted
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.metrics.formulas import acceptance_rate

CASES = (
    Column("prompts", words=True),
    Column("verdict", words=True),
    SPEEDUP,
    Column("TPOT", "Speed-up of the time per output token after the first: where speculation acts"),
    Column("tokens/step", "Output tokens of an engine step, arm / baseline"),
    Column("same output", "Pairs of answers to the same prompt, equal character for character"),
    Column("$/1M tokens", "Dollars per million output tokens at the measured load: baseline → arm"),
    Column("kind", words=True),
    Column("interval over", "What the interval of the speed-up rests on", words=True),
)
RULE = (
    "The verdict follows from the whole interval of the speed-up. All of it within ±5%: no relevant difference. Else "
    "all above 1×: pays; all below 1×: costs. Any other, too many failed requests or a late load generator: cannot "
    "tell."
)


def case_table(comparison: Comparison, pair: Pair) -> ReportTable:
    """A row for each prompt type, then one for each kind of prompts and for all together."""
    rows = [_case(comparison, pair, case) for case in pair.by_kind]
    rows += [_group(comparison, pair, group) for group in pair.groups if len(group.cases) > 1]
    return ReportTable(CASES, rows, f"{pair.variant} against {pair.baseline}", RULE)


def _case(comparison: Comparison, pair: Pair, case: CaseResult) -> list[Cell]:
    by_name = {estimate.metric: estimate for estimate in case.speedups}
    same = case.equality
    costs = [comparison.cost_over(name, pair, case.case) for name in (pair.baseline, pair.variant)]
    return [
        Cell(case.case, title=case.reason),
        Cell(case.verdict.value, case.verdict, case.reason),
        Cell(compact(case.headline) if case.headline else NONE, case.verdict),
        *(Cell(gain(by_name.get(name))) for name in ("time_per_output_token", "tokens_per_step")),
        Cell(f"{same.identical} of {same.compared}" if same.compared else NONE),
        Cell(_costs(costs)),
        Cell(kind_of(case.structured)),
        Cell(_sample(case)),
    ]


def _sample(case: CaseResult) -> str:
    """`8 prompts`, `12 requests of one prompt`, `50 requests`."""
    if case.distinct_prompts == 1 and case.pairs > 1:
        return f"{case.pairs} requests of one prompt"
    unit = "prompt" if case.distinct_prompts else "request"
    return counted(case.pairs, unit)


def _group(comparison: Comparison, pair: Pair, group: GroupResult) -> list[Cell]:
    found = decided(comparison).finding(pair.variant) if group.group == "all" else None
    whole = compact(found.speedup) if found and found.speedup else figure_of(group)
    of = re.sub(r"95% CI | over \d.*(?=\))", "", whole)
    compared = [case.equality for case in pair.cases if case.case in group.cases]
    all_of, same = sum(each.compared for each in compared), sum(each.identical for each in compared)
    return [
        Cell(f"{group.group} prompts"),
        Cell(group.verdict.value, group.verdict, group.reason),
        Cell(of, group.verdict, figure_of(group)),
        Cell(NONE),
        Cell(NONE),
        Cell(f"{same} of {all_of}" if all_of else NONE),
        Cell(_costs(comparison.costs(pair) or () if group.group == "all" else ())),
        Cell("together"),
        Cell(counted(len(group.judged), "prompt type")),
    ]


def _costs(found: Sequence[float | None]) -> str:
    known = [dollars(value) for value in found if value is not None]
    return " → ".join(known) if len(known) == 2 else NONE


def metric_tables(comparison: Comparison, pair: Pair) -> Iterator[ReportTable]:
    """Every metric of each prompt type: medians, or one value of all requests, and the speed-up."""
    for case in pair.cases:
        base, other = (comparison.arm(name, case.case) for name in (pair.baseline, pair.variant))
        if base is None or other is None:
            continue
        rows = []
        for info in comparison.metrics:
            shown = [_value(arm, info) for arm in (base, other)]
            if all(each.text == NONE for each in shown):
                continue
            estimate = next((found for found in case.speedups if found.metric == info.name), None)
            faster = ratio(estimate, info) if estimate else Number("", "")
            about = f"{info.formula} [{info.unit}]"
            if info.name == acceptance_rate.tag:
                about += f"; {other.acceptance_source}; not the a of the model"
            rows.append([Cell(info.label, title=about), *(Cell(text, title=title) for text, title in (*shown, faster))])
        failed = (
            Cell(f"{arm.failed} of {arm.requests}", title="Requests that ended in an error") for arm in (base, other)
        )
        rows.append([Cell("Failed requests"), *failed, Cell("")])
        arms = (Column(arm.variant, "Figures of this arm") for arm in (base, other))
        settle = f" It would be settled by {case.settle}." if case.settle else ""
        columns = (Column("metric (median, or over all requests)"), *arms, SPEEDUP)
        yield ReportTable(columns, rows, case.case, f"{case.reason[:1].upper()}{case.reason[1:]}.{settle}")


def _value(arm: ArmCase, info: MetricInfo) -> Number:
    """The median; the 99th percentile where an import knows no other; or the one value of all requests."""
    if (found := arm.metrics.get(info.name)) is None:
        value = arm.totals.get(info.name)
        return figure(value, info, "all requests")
    if found.p50 is None and found.p99 is not None:
        known = figure(found.p99, info, "99th percentile, the only one known")
        return known._replace(text=f"{known.text} (p99)")
    return figure(found.p50, info, f"median of {found.n} values")


def arms_table(comparison: Comparison) -> ReportTable:
    """The speed-up of every arm on every prompt type, and what the servers wrote if their settings differ."""
    experiment, setting, written = comparison.experiment, decided(comparison).setting, speeds(comparison.arms)
    cases = [case.name for case in experiment.workload.cases]
    served = [Column("served with", words=True), Column("tokens/s", "Output tokens a second of the server, both arms")]
    columns = [Column("arm", words=True), *(served if setting else ())]
    columns += [Column(name, SPEEDUP.title) for name in (*cases, "all")]
    rows = []
    for pair in comparison.pairs:
        found = {
            case.case: Cell(gain(case.headline), case.verdict, f"{case.verdict.value}: {case.reason}")
            for case in pair.cases
        }
        both = " → ".join(digits(written[name]) for name in (pair.baseline, pair.variant) if name in written)
        own = [Cell(experiment.setting_in_words(experiment.variant(pair.variant))), Cell(both)] if setting else []
        rows.append([Cell(pair.variant), *own, *(found.get(name, Cell(NONE)) for name in cases), _of_group(pair)])
    note = (
        f"Speed-up over the arm that each is compared with. The best of {len(rows)} was chosen after the measurement; "
        "its own interval does not account for that choice."
    )
    if setting:
        note += f" Each baseline is served as its arm. The decision is about {setting}, with most tokens a second."
    return ReportTable(columns, rows, "All arms at a glance", note)


def _of_group(pair: Pair, *, whole: bool = False) -> Cell:
    """The speed-up over all prompts; `whole`: with its interval."""
    found = pair.group("all")
    if found is None:
        return Cell(NONE)
    text = figure_of(found) if whole and found.headline else gain(found.headline)
    return Cell(text, found.verdict, f"{found.verdict.value}: {found.reason or figure_of(found)}")


def k_table(comparison: Comparison) -> ReportTable:
    """Speed-up by draft and k, of arms that differ from their baseline by speculation alone and draft one number of
    tokens at every load. Empty if there is one k.
    """
    known = {v.name: s for v in speculative(comparison.experiment) if (s := v.speculation)}
    ks = sorted({each.num_speculative_tokens for each in known.values()})
    rows: dict[str, dict[int, Cell]] = {each.draft.id: {} for each in known.values()} if len(ks) > 1 else {}
    for pair in at_fastest(comparison.experiment, comparison.arms, comparison.pairs):
        if rows and (own := known.get(pair.variant)) and pair.changes == ("speculation",):
            rows[own.draft.id][own.num_speculative_tokens] = _of_group(pair)
    columns = [Column("draft", words=True), *(Column(f"k={k}", SPEEDUP.title) for k in ks)]
    body = [[Cell(draft), *(row.get(k, Cell("")) for k in ks)] for draft, row in rows.items()]
    return ReportTable(columns, body, "Draft and k", "Over all prompts together. An empty cell was not measured.")


def chain_table(chain: Chain) -> ReportTable:
    """Each change by itself, then all of them together."""
    rows = [
        [Cell(change), Cell(pair.baseline), Cell(pair.variant), _of_group(pair, whole=True)]
        for change, pair in (*((", ".join(link.changes), link) for link in chain.links), ("together", chain.total))
    ]
    columns = [*(Column(name, words=True) for name in ("change", "from", "to")), SPEEDUP]
    return ReportTable(
        columns, rows, f"{chain.variant}: speed-up of each change", "All changes together were measured directly."
    )


def accuracy_table(comparison: Comparison) -> ReportTable:
    """Scores of each arm, and their change from the baseline's. Empty if no accuracy was measured."""
    changes = {(each.variant, each.task, each.metric): each for each in reversed(comparison.accuracy)}
    rows = []
    for item in comparison.context.accuracy:
        change, told = changes.get((item.variant, item.task, item.metric)), NONE
        if change:
            low, high = change.low, change.high
            interval = f" ({low:+.3f} to {high:+.3f})" if low is not None and high is not None else ""
            better = "worse" if change.worse else "better"
            told = f"{change.change:+.3f}{interval} {better if change.shown else 'no difference shown'}"
        task = f"{item.task}{f' ({item.samples} samples)' if item.samples else ''}"
        score = f"{item.value:.3f}{f' ± {item.stderr:.3f} s.e.' if item.stderr is not None else ''}"
        rows.append([Cell(item.variant), Cell(task), Cell(item.metric), Cell(score), Cell(told)])
    columns = (
        *(Column(name, words=True) for name in ("arm", "task", "metric")),
        Column("score", "As lm-eval reports it, with its standard error"),
        Column("change (95% CI)", "Score minus that of the arm it is compared with; both taken as independent"),
    )
    return ReportTable(columns, rows, "Does it still answer as well?")
