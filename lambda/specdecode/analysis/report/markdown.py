"""The report as Markdown: for a pull request, a chat or a terminal pager."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.analysis.loads.k_by_load import in_words
from specdecode.analysis.report import curves, nodes, turns, work
from specdecode.analysis.report.numbers import NONE, compact, dollars, duration, figure, percent, ratio
from specdecode.analysis.results.comparison import ArmCase, CaseResult, Comparison, Pair
from specdecode.analysis.results.work_result import Work
from specdecode.analysis.statistics.groups import figure as figure_of
from specdecode.analysis.texts.setting import setting, winner
from specdecode.escape import line, markdown

MARKDOWN_TEXT = 160
"""Characters of a prompt; the page and report.json have more."""


def render_markdown(comparison: Comparison) -> str:
    """Answer, verdict table, metrics side by side, cost, equality, prediction, failures, formulas."""
    sections = (
        _head(comparison),
        _curves(comparison),
        *(_work(found) for found in comparison.work),
        _turns(comparison),
        *(_pair(comparison, pair) for pair in comparison.pairs),
        _nodes(comparison),
        _chains(comparison),
        _accuracy(comparison),
        _theory(comparison),
        _cost(comparison),
        _serve(comparison),
        _failures(comparison),
        _formulas(comparison),
    )
    return "\n".join("\n".join(section) for section in sections).rstrip() + "\n"


def _head(comparison: Comparison) -> Iterator[str]:
    yield f"# {markdown(comparison.title)}"
    yield ""
    yield f"**{markdown(comparison.answer)}**"
    yield ""
    for sentence in (comparison.recommendation, comparison.advice and f"Next: {comparison.advice}"):
        if sentence:
            yield markdown(sentence)
            yield ""
    started = comparison.context.started_at
    when = f", {started:%Y-%m-%d %H:%M} UTC" if started.timestamp() > 0 else ""
    yield f"Run `{comparison.run_id}`{when}."
    yield ""
    for fact in setting(comparison):
        yield f"- {fact.name}: {markdown(fact.text)}"
    yield ""
    for note in comparison.notes:
        yield f"> {markdown(note)}"
        yield ">"
    yield ""


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _pair(comparison: Comparison, pair: Pair) -> Iterator[str]:
    yield f"## {markdown(pair.variant)} against {markdown(pair.baseline)}"
    yield ""
    yield _row(["prompts", "kind", "verdict", "speed-up (95% CI)", "outputs equal", "$/1M output tokens"])
    yield "|---|---|---|--:|--:|--:|"
    for case in pair.cases:
        costs = [arm.cost_per_million if arm else None for arm in _arms(comparison, pair, case)]
        yield _row(
            [
                markdown(case.case),
                "structured" if case.structured else "open-ended",
                f"**{case.verdict.value}**",
                compact(case.headline) if case.headline else NONE,
                f"{case.equality.identical}/{case.equality.compared}" if case.equality.compared else NONE,
                " → ".join(dollars(cost) if cost is not None else NONE for cost in costs).replace("$", "\\$"),
            ]
        )
    yield ""
    for group in pair.groups:
        yield f"- {group.group} prompts: **{group.verdict.value}**, {markdown(figure_of(group))}"
    yield ""
    for case in pair.cases:
        yield from _case(comparison, pair, case)


def _case(comparison: Comparison, pair: Pair, case: CaseResult) -> Iterator[str]:
    base, other = _arms(comparison, pair, case)
    if base is None or other is None:
        return
    by_name = {estimate.metric: estimate for estimate in case.speedups}
    yield f"### {markdown(case.case)}"
    yield ""
    yield markdown(case.reason) + "." + (f" It would be settled by {markdown(case.settle)}." if case.settle else "")
    yield ""
    yield _row(
        ["metric (median, or over all requests)", markdown(base.variant), markdown(other.variant), "speed-up (95% CI)"]
    )
    yield "|---|--:|--:|--:|"
    for info in comparison.metrics:
        values = [
            arm.metrics[info.name].p50 if info.name in arm.metrics else arm.totals.get(info.name)
            for arm in (base, other)
        ]
        gain = ratio(by_name[info.name], info).text if info.name in by_name else ""
        yield _row([markdown(info.label), *(figure(value, info).text for value in values), gain])
    yield ""
    for note in case.notes:
        yield f"- {markdown(note)}"
    if case.equality.first:
        first = case.equality.first
        yield (
            f"- First difference: request {first.index}, after {first.at} equal characters: "
            f"“{markdown(first.before[-30:])}” goes on “{markdown(first.base[:30])}” (base), "
            f"“{markdown(first.other[:30])}”"
        )
    yield ""


def _work(found: Work) -> Iterator[str]:
    yield f"## {markdown(found.variant)} by kind of work"
    yield ""
    yield markdown(work.sentence(found))
    yield ""
    yield _row(list(work.HEADERS))
    yield "|---|--:|---|--:|--:|--:|--:|"
    for category in found.categories:
        yield _row([markdown(cell) for cell in work.row(category)])
    yield ""
    if headers := work.level_headers(found):
        yield "By load: speed-up (95% CI over prompts), acceptance length, verdict."
        yield ""
        yield _row(headers)
        yield "|---|" + "--:|" * (len(headers) - 1)
        for category in found.categories:
            cells = work.level_row(category, headers)
            yield _row([markdown(f"{text}, {verdict.value}" if verdict else text) for text, verdict in cells])
        yield ""
    for category in found.categories:
        for which, prompts in (("most", category.most), ("least", category.least)):
            for prompt in prompts:
                text = line(prompt.text[:MARKDOWN_TEXT])
                more = "…" if prompt.characters > MARKDOWN_TEXT else ""
                said = f": “{markdown(text)}{more}”" if text else ""
                yield f"- {markdown(category.case)}, gained {which}: {markdown(prompt.id)}, {work.gain(prompt)}{said}"
    yield ""


def _turns(comparison: Comparison) -> Iterator[str]:
    if not (found := turns.rows(comparison)):
        return
    yield "## Conversations turn by turn"
    yield ""
    yield markdown(turns.about(comparison))
    yield ""
    yield _row(list(turns.HEADERS))
    yield _row(["---", "---", *["--:"] * (len(turns.HEADERS) - 2)])
    for row in found:
        yield _row([markdown(cell) for cell in row])
    yield ""


def _curves(comparison: Comparison) -> Iterator[str]:
    for curve in curves.shown(comparison):
        headers = curves.headers(curve)
        yield f"## {markdown(curve.variant)} over the load"
        yield ""
        yield markdown(curves.sentence(comparison, curve))
        yield ""
        yield _row([text.replace("$", "\\$") for text in headers])
        yield "|---|" + "--:|" * (len(headers) - 1)
        for cells in curves.rows(curve):
            yield _row([text.replace("$", "\\$") for text in cells])
        yield ""
    for found in comparison.schedule:
        yield markdown(in_words(found))
        yield ""
        if found.paste:
            yield f"    {found.paste}"
            yield ""


def _nodes(comparison: Comparison) -> Iterator[str]:
    if not comparison.parts:
        return
    yield "## The nodes"
    yield ""
    yield _row([markdown(text) for text in nodes.headers(comparison)])
    yield "|--:|---|---|--:|--:|"
    for row in nodes.rows(comparison):
        yield _row([markdown(cell) for cell in row])
    yield ""


def _chains(comparison: Comparison) -> Iterator[str]:
    for chain in comparison.chains:
        total = chain.total.group("all")
        yield f"## {markdown(chain.variant)}: what each change is worth"
        yield ""
        yield _row(["change", "from", "to", "speed-up (95% CI)"])
        yield "|---|---|---|--:|"
        for link in chain.links:
            group = link.group("all")
            gain = figure_of(group) if group and group.headline else NONE
            yield _row([markdown(", ".join(link.changes)), markdown(link.baseline), markdown(link.variant), gain])
        gain = figure_of(total) if total and total.headline else NONE
        yield _row(["**together**", markdown(chain.root), markdown(chain.variant), gain])
        yield ""


def _accuracy(comparison: Comparison) -> Iterator[str]:
    if not comparison.accuracy:
        return
    yield "## Accuracy"
    yield ""
    yield _row(["arm", "task", "metric", "baseline", "arm's score", "change (95% CI)"])
    yield "|---|---|---|--:|--:|--:|"
    for item in comparison.accuracy:
        interval = f" ({item.low:+.3f} to {item.high:+.3f})" if item.low is not None and item.high is not None else ""
        change = f"{item.change:+.3f}{interval}{'' if item.shown else ', no difference shown'}"
        names = [markdown(text) for text in (item.variant, item.task, item.metric)]
        yield _row([*names, f"{item.before:.3f}", f"{item.after:.3f}", change])
    yield ""


def _theory(comparison: Comparison) -> Iterator[str]:
    if not comparison.theory:
        return
    yield "## What the advisor believes"
    yield ""
    for theory in comparison.theory:
        yield (
            f"- Draft {markdown(theory.draft)}, {theory.group} prompts: a = {theory.acceptance:.3f}, "
            f"c = {theory.draft_cost:.3f}, v = {theory.overhead:.3f}"
        )
    yield ""


def _cost(comparison: Comparison) -> Iterator[str]:
    cost = comparison.cost
    if cost is None:
        return
    yield "## Cost"
    yield ""
    if cost.total is not None and cost.node_hours is not None:
        yield (
            f"The run held a node for {duration(cost.node_hours * 3600)} at "
            f"\\{dollars(cost.price_per_node_hour)} per hour: \\{dollars(cost.total)}. "
            f"Measurement took {duration(cost.measured_seconds)}"
            + (f" ({percent(cost.utilization)} of it)." if cost.utilization is not None else ".")
        )
        yield ""


def _serve(comparison: Comparison) -> Iterator[str]:
    if (found := winner(comparison)) is None:
        return
    yield f"## Serve {markdown(found.variant)} again"
    yield ""
    if found.artifact:
        yield f"Artifact: `{found.artifact}`"
        yield ""
    yield from (f"    {text}" for text in map(line, found.recipe.splitlines()))
    yield ""


def _failures(comparison: Comparison) -> Iterator[str]:
    if not comparison.context.failures:
        return
    yield "## What failed"
    yield ""
    for failure in comparison.context.failures:
        yield f"- {markdown(failure.stage)}: {markdown(failure.message)}"
    yield ""


def _formulas(comparison: Comparison) -> Iterator[str]:
    yield "## How each figure is computed"
    yield ""
    for info in comparison.metrics:
        yield f"- {markdown(info.label)} [{markdown(info.unit)}]: {markdown(info.formula)}"


def _arms(comparison: Comparison, pair: Pair, case: CaseResult) -> tuple[ArmCase | None, ArmCase | None]:
    base, other = (comparison.beside(pair, name, case.case) for name in (pair.baseline, pair.variant))
    return base, other
