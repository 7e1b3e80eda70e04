"""The report as Markdown: for a pull request, a chat or a terminal pager."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdecode.analysis.loads.k_by_load import in_words
from specdecode.analysis.report.forecasts import TITLE, forecast_of, forecast_table
from specdecode.analysis.report.over_load import curve_sentence, curve_table, shown_curves
from specdecode.analysis.report.tables import (
    ReportTable,
    about_turns,
    figures_table,
    gain,
    turn_table,
    work_by_load,
    work_sentence,
    work_table,
)
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE, compact, dollars, duration, figure, percent, ratio, spread
from specdecode.analysis.results.pairs import CaseResult, Chain, GroupResult, Pair, Work, kind_of
from specdecode.analysis.statistics.groups import figure as figure_of
from specdecode.analysis.texts.decide import decided
from specdecode.analysis.texts.setting import NEXT, setting, winner
from specdecode.escape import line, markdown
from specdecode.measures.arm_case import ArmCase

LONGEST_PROMPT = 160
"""Characters of a prompt; the page and report.json have more."""


def render_markdown(comparison: Comparison) -> str:
    """Answer, verdict table, metrics side by side, cost, equality, prediction, failures, formulas."""
    blocks = (
        *_head(comparison),
        *_curves(comparison),
        *(block for found in comparison.work for block in _work(found)),
        *_turns(comparison),
        *(() if comparison.pairs else ("## Each arm by itself", _plain_table(figures_table(comparison)))),
        *(block for pair in comparison.pairs for block in _pair(comparison, pair)),
        *(block for chain in comparison.chains for block in _chain(chain)),
        *_accuracy(comparison),
        *_forecast(comparison),
        *_theory(comparison),
        *_cost(comparison),
        *_serve(comparison),
        *_failures(comparison),
        *_formulas(comparison),
    )
    return "\n\n".join(block for block in blocks if block) + "\n"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, words: int) -> str:
    """A table of cells that are Markdown. The first `words` columns are set on the left, the figures on the right."""
    rule = "|" + "---|" * words + "--:|" * (len(headers) - words)
    head, *body = ("| " + " | ".join(cells) + " |" for cells in (headers, *rows))
    return "\n".join([head, rule, *body])


def _plain_table(table: ReportTable) -> str:
    """Words of a table are escaped. Figures stay as they are but for $, which some renderers take for a formula."""
    words = [column.words for column in table.columns]
    rows = [
        [markdown(text) if told else text.replace("$", "\\$") for text, told in zip(texts, words, strict=True)]
        for texts in (table.headers, *table.texts)
    ]
    left = next((at for at, told in enumerate(words) if at and not told), len(words))
    return _table(rows[0], rows[1:], words=left)


def _head(comparison: Comparison) -> Iterator[str]:
    yield f"# {markdown(comparison.title)}"
    yield f"**{markdown(comparison.answer)}**"
    yield markdown(comparison.recommendation or "")
    yield markdown(f"{NEXT}: {comparison.advice}" if comparison.advice else "")
    started = comparison.context.started_at
    when = f", {started:%Y-%m-%d %H:%M} UTC" if started.timestamp() > 0 else ""
    yield f"Run `{comparison.run_id}`{when}."
    yield "\n".join(f"- {fact.name}: {markdown(fact.text)}" for fact in setting(comparison))
    yield "\n".join(f"> {markdown(note)}\n>" for note in comparison.notes)


def _turns(comparison: Comparison) -> Iterator[str]:
    if found := turn_table(comparison):
        yield "## Conversations turn by turn"
        yield markdown(about_turns(comparison))
        yield _plain_table(found)


def _forecast(comparison: Comparison) -> Iterator[str]:
    told, measured = forecast_of(comparison)
    if told:
        yield f"## {TITLE}"
        yield _plain_table(forecast_table(told, measured))


def _curves(comparison: Comparison) -> Iterator[str]:
    for curve in shown_curves(comparison):
        yield f"## {markdown(curve.variant)} over the load"
        yield markdown(curve_sentence(comparison, curve))
        yield _plain_table(curve_table(curve))
    for found in comparison.schedule:
        yield markdown(in_words(found))
        yield f"    {found.paste}" if found.paste else ""


def _pair(comparison: Comparison, pair: Pair) -> Iterator[str]:
    """Verdict table of a pair, then each case."""
    yield f"## {markdown(pair.variant)} against {markdown(pair.baseline)}"
    rows = []
    for case in pair.cases:
        costs = [arm.cost_per_million if arm else None for arm in _arms(comparison, pair, case)]
        row = [
            markdown(case.case),
            kind_of(case.structured),
            f"**{case.verdict.value}**",
            compact(case.headline) if case.headline else NONE,
            f"{case.equality.identical}/{case.equality.compared}" if case.equality.compared else NONE,
            " → ".join(dollars(cost) if cost is not None else NONE for cost in costs).replace("$", "\\$"),
        ]
        rows.append(row)
    headers = ["prompts", "kind", "verdict", "speed-up (95% CI)", "outputs equal", "$/1M output tokens"]
    yield _table(headers, rows, words=3)
    yield "\n".join(
        f"- {group.group} prompts: **{group.verdict.value}**, {markdown(_together(comparison, pair, group))}"
        for group in pair.groups
    )
    for case in pair.cases:
        yield from _case(comparison, pair, case)


def _together(comparison: Comparison, pair: Pair, group: GroupResult) -> str:
    found = decided(comparison).finding(pair.variant) if group.group == "all" else None
    return spread(found.speedup) if found and found.speedup else figure_of(group)


def _case(comparison: Comparison, pair: Pair, case: CaseResult) -> Iterator[str]:
    base, other = _arms(comparison, pair, case)
    if base is None or other is None:
        return
    by_name = {estimate.metric: estimate for estimate in case.speedups}
    yield f"### {markdown(case.case)}"
    yield markdown(case.reason) + "." + (f" It would be settled by {markdown(case.settle)}." if case.settle else "")
    rows = []
    for info in comparison.metrics:
        values = [
            arm.metrics[info.name].p50 if info.name in arm.metrics else arm.totals.get(info.name)
            for arm in (base, other)
        ]
        speedup = ratio(by_name[info.name], info).text if info.name in by_name else ""
        rows.append([markdown(info.label), *(figure(value, info).text for value in values), speedup])
    arms = markdown(base.variant), markdown(other.variant)
    yield _table(["metric (median, or over all requests)", *arms, "speed-up (95% CI)"], rows, words=1)
    notes = [f"- {markdown(note)}" for note in case.notes]
    if first := case.equality.first:
        notes.append(
            f"- First difference: request {first.index}, after {first.at} equal characters: "
            f"“{markdown(first.before[-30:])}” goes on “{markdown(first.base[:30])}” (base), "
            f"“{markdown(first.other[:30])}”"
        )
    yield "\n".join(notes)


def _arms(comparison: Comparison, pair: Pair, case: CaseResult) -> tuple[ArmCase | None, ArmCase | None]:
    base, other = (comparison.arm(name, case.case) for name in (pair.baseline, pair.variant))
    return base, other


def _work(found: Work) -> Iterator[str]:
    yield f"## {markdown(found.variant)} by kind of work"
    yield markdown(work_sentence(found))
    yield _plain_table(work_table(found))
    if by_load := work_by_load(found):
        yield "By load: speed-up (95% CI over prompts), acceptance length, verdict."
        rows = [
            [f"{cell.text}, {cell.verdict.value}" if cell.verdict else markdown(cell.text) for cell in row]
            for row in by_load.rows
        ]
        yield _table(by_load.headers, rows, words=1)
    extremes = []
    for category in found.categories:
        for which, prompts in (("most", category.most), ("least", category.least)):
            for prompt in prompts:
                text = line(prompt.text[:LONGEST_PROMPT])
                more = "…" if prompt.characters > LONGEST_PROMPT else ""
                said = f": “{markdown(text)}{more}”" if text else ""
                extremes.append(
                    f"- {markdown(category.case)}, gained {which}: {markdown(prompt.id)}, {gain(prompt)}{said}"
                )
    yield "\n".join(extremes)


def _chain(chain: Chain) -> Iterator[str]:
    yield f"## {markdown(chain.variant)}: speed-up of each change"
    rows = [
        [markdown(", ".join(link.changes)), markdown(link.baseline), markdown(link.variant), _of_all(link)]
        for link in chain.links
    ]
    rows.append(["**together**", markdown(chain.root), markdown(chain.variant), _of_all(chain.total)])
    yield _table(["change", "from", "to", "speed-up (95% CI)"], rows, words=3)


def _of_all(pair: Pair) -> str:
    group = pair.group("all")
    return figure_of(group) if group and group.headline else NONE


def _accuracy(comparison: Comparison) -> Iterator[str]:
    if not comparison.accuracy:
        return
    yield "## Accuracy"
    rows = []
    for item in comparison.accuracy:
        interval = f" ({item.low:+.3f} to {item.high:+.3f})" if item.low is not None and item.high is not None else ""
        change = f"{item.change:+.3f}{interval}{'' if item.shown else ', no difference shown'}"
        names = [markdown(text) for text in (item.variant, item.task, item.metric)]
        rows.append([*names, f"{item.before:.3f}", f"{item.after:.3f}", change])
    yield _table(["arm", "task", "metric", "baseline", "arm's score", "change (95% CI)"], rows, words=3)


def _theory(comparison: Comparison) -> Iterator[str]:
    if comparison.theory:
        yield "## What the advisor believes"
        yield "\n".join(
            f"- Draft {markdown(theory.draft)}, {theory.group} prompts: a = {theory.acceptance:.3f}, "
            f"c = {theory.draft_cost:.3f}, v = {theory.overhead:.3f}"
            for theory in comparison.theory
        )


def _cost(comparison: Comparison) -> Iterator[str]:
    if (cost := comparison.cost) is None:
        return
    yield "## Cost"
    if cost.total is not None and cost.node_hours is not None:
        yield (
            f"The run held a node for {duration(cost.node_hours * 3600)} at "
            f"\\{dollars(cost.price_per_node_hour)} per hour: \\{dollars(cost.total)}. "
            f"Measurement took {duration(cost.measured_seconds)}"
            + (f" ({percent(cost.utilization)} of it)." if cost.utilization is not None else ".")
        )


def _serve(comparison: Comparison) -> Iterator[str]:
    if found := winner(comparison):
        yield f"## Serve {markdown(found.variant)} again"
        yield f"Artifact: `{found.where}`" if found.where else ""
        yield "\n".join(f"    {text}" for text in map(line, found.recipe.splitlines()))


def _failures(comparison: Comparison) -> Iterator[str]:
    if failures := comparison.context.failures:
        yield "## What failed"
        yield "\n".join(f"- {markdown(failure.stage)}: {markdown(failure.message)}" for failure in failures)


def _formulas(comparison: Comparison) -> Iterator[str]:
    yield "## How each figure is computed"
    yield "\n".join(
        f"- {markdown(info.label)} [{markdown(info.unit)}]: {markdown(info.formula)}" for info in comparison.metrics
    )
