"""The report as Markdown: for a pull request, a chat or a terminal pager."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.analysis.loads.k_by_load import in_words
from specdecode.analysis.report import curves, nodes, turns
from specdecode.analysis.report.markdown_pair import pair_section, row, work_section
from specdecode.analysis.report.numbers import NONE, dollars, duration, percent
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.statistics.groups import figure as figure_of
from specdecode.analysis.texts.setting import setting, winner
from specdecode.escape import line, markdown


def render_markdown(comparison: Comparison) -> str:
    """Answer, verdict table, metrics side by side, cost, equality, prediction, failures, formulas."""
    sections = (
        _head(comparison),
        _curves(comparison),
        *(work_section(found) for found in comparison.work),
        _turns(comparison),
        *(pair_section(comparison, pair) for pair in comparison.pairs),
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


def _turns(comparison: Comparison) -> Iterator[str]:
    if not (found := turns.rows(comparison)):
        return
    yield "## Conversations turn by turn"
    yield ""
    yield markdown(turns.about(comparison))
    yield ""
    yield row(list(turns.HEADERS))
    yield row(["---", "---", *["--:"] * (len(turns.HEADERS) - 2)])
    for cells in found:
        yield row([markdown(cell) for cell in cells])
    yield ""


def _curves(comparison: Comparison) -> Iterator[str]:
    for curve in curves.shown(comparison):
        headers = curves.headers(curve)
        yield f"## {markdown(curve.variant)} over the load"
        yield ""
        yield markdown(curves.sentence(comparison, curve))
        yield ""
        yield row([text.replace("$", "\\$") for text in headers])
        yield "|---|" + "--:|" * (len(headers) - 1)
        for cells in curves.rows(curve):
            yield row([text.replace("$", "\\$") for text in cells])
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
    yield row([markdown(text) for text in nodes.headers(comparison)])
    yield "|--:|---|---|--:|--:|"
    for cells in nodes.rows(comparison):
        yield row([markdown(cell) for cell in cells])
    yield ""


def _chains(comparison: Comparison) -> Iterator[str]:
    for chain in comparison.chains:
        total = chain.total.group("all")
        yield f"## {markdown(chain.variant)}: speed-up of each change"
        yield ""
        yield row(["change", "from", "to", "speed-up (95% CI)"])
        yield "|---|---|---|--:|"
        for link in chain.links:
            group = link.group("all")
            gain = figure_of(group) if group and group.headline else NONE
            yield row([markdown(", ".join(link.changes)), markdown(link.baseline), markdown(link.variant), gain])
        gain = figure_of(total) if total and total.headline else NONE
        yield row(["**together**", markdown(chain.root), markdown(chain.variant), gain])
        yield ""


def _accuracy(comparison: Comparison) -> Iterator[str]:
    if not comparison.accuracy:
        return
    yield "## Accuracy"
    yield ""
    yield row(["arm", "task", "metric", "baseline", "arm's score", "change (95% CI)"])
    yield "|---|---|---|--:|--:|--:|"
    for item in comparison.accuracy:
        interval = f" ({item.low:+.3f} to {item.high:+.3f})" if item.low is not None and item.high is not None else ""
        change = f"{item.change:+.3f}{interval}{'' if item.shown else ', no difference shown'}"
        names = [markdown(text) for text in (item.variant, item.task, item.metric)]
        yield row([*names, f"{item.before:.3f}", f"{item.after:.3f}", change])
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
