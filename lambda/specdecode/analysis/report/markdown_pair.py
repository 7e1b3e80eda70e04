"""One pair of arms in Markdown: verdicts, metrics side by side, and its results by kind of work."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.analysis.report import work
from specdecode.analysis.report.numbers import NONE, compact, dollars, figure, ratio
from specdecode.analysis.results.comparison import ArmCase, CaseResult, Comparison, Pair
from specdecode.analysis.results.work_result import Work
from specdecode.analysis.statistics.groups import figure as figure_of
from specdecode.escape import line, markdown

MARKDOWN_TEXT = 160
"""Characters of a prompt; the page and report.json have more."""


def row(cells: list[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def pair_section(comparison: Comparison, pair: Pair) -> Iterator[str]:
    """Verdict table of a pair, then each case."""
    yield f"## {markdown(pair.variant)} against {markdown(pair.baseline)}"
    yield ""
    yield row(["prompts", "kind", "verdict", "speed-up (95% CI)", "outputs equal", "$/1M output tokens"])
    yield "|---|---|---|--:|--:|--:|"
    for case in pair.cases:
        costs = [arm.cost_per_million if arm else None for arm in _arms(comparison, pair, case)]
        yield row(
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
    yield row(
        ["metric (median, or over all requests)", markdown(base.variant), markdown(other.variant), "speed-up (95% CI)"]
    )
    yield "|---|--:|--:|--:|"
    for info in comparison.metrics:
        values = [
            arm.metrics[info.name].p50 if info.name in arm.metrics else arm.totals.get(info.name)
            for arm in (base, other)
        ]
        gain = ratio(by_name[info.name], info).text if info.name in by_name else ""
        yield row([markdown(info.label), *(figure(value, info).text for value in values), gain])
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


def work_section(found: Work) -> Iterator[str]:
    """Results of a pair by kind of work."""
    yield f"## {markdown(found.variant)} by kind of work"
    yield ""
    yield markdown(work.sentence(found))
    yield ""
    yield row(list(work.HEADERS))
    yield "|---|--:|---|--:|--:|--:|--:|"
    for category in found.categories:
        yield row([markdown(cell) for cell in work.row(category)])
    yield ""
    if headers := work.level_headers(found):
        yield "By load: speed-up (95% CI over prompts), acceptance length, verdict."
        yield ""
        yield row(headers)
        yield "|---|" + "--:|" * (len(headers) - 1)
        for category in found.categories:
            cells = work.level_row(category, headers)
            yield row([markdown(f"{text}, {verdict.value}" if verdict else text) for text, verdict in cells])
        yield ""
    for category in found.categories:
        for which, prompts in (("most", category.most), ("least", category.least)):
            for prompt in prompts:
                text = line(prompt.text[:MARKDOWN_TEXT])
                more = "…" if prompt.characters > MARKDOWN_TEXT else ""
                said = f": “{markdown(text)}{more}”" if text else ""
                yield f"- {markdown(category.case)}, gained {which}: {markdown(prompt.id)}, {work.gain(prompt)}{said}"
    yield ""


def _arms(comparison: Comparison, pair: Pair, case: CaseResult) -> tuple[ArmCase | None, ArmCase | None]:
    base, other = (comparison.beside(pair, name, case.case) for name in (pair.baseline, pair.variant))
    return base, other
