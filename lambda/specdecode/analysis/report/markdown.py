"""The report as Markdown: for a pull request, a chat or a terminal pager."""

from collections.abc import Iterable, Iterator

from specdecode.analysis.report.blocks import Block, Cell, Code, Listing, More, ReportTable, Text
from specdecode.analysis.report.page import ReportView
from specdecode.analysis.report.sections import sections
from specdecode.analysis.results.comparison import Comparison
from specdecode.escape import line, markdown


def render_markdown(comparison: Comparison) -> str:
    """The headline, what to doubt, then every section with all that is text."""
    view = ReportView(comparison)
    blocks = [f"# {markdown(comparison.title)}", f"**{markdown(view.headline)}**", markdown(view.at_first_load)]
    blocks += ["\n".join(f"> {markdown(doubt)}\n>" for doubt in view.doubts)]
    started = comparison.context.started_at
    when = f", {started:%Y-%m-%d %H:%M} UTC" if started.timestamp() > 0 else ""
    blocks.append(f"Run `{comparison.run_id}`{when}.")
    for section in sections(view):
        body = [markdown(section.says), *_blocks(section.blocks)]
        blocks += [f"## {markdown(section.title)}", *body] if any(body) else []
    return "\n\n".join(block for block in blocks if block) + "\n"


def _blocks(found: Iterable[Block]) -> Iterator[str]:
    for block in found:
        match block:
            case Text(text):
                yield markdown(text)
            case Code(text):
                yield "\n".join(f"    {each}" for each in map(line, text.splitlines()))
            case Listing(items, title):
                yield f"### {markdown(title)}" if title else ""
                yield "\n".join(f"- {markdown(f'{name}: {said}' if name else said)}" for name, said in items)
            case ReportTable():
                yield f"### {markdown(block.title)}" if block.title else ""
                yield _table(block)
                yield markdown(block.note)
            case More(title, blocks):
                yield f"### {markdown(title)}"
                yield from _blocks(blocks)


def _table(table: ReportTable) -> str:
    """Words are escaped, and set on the left. Figures stay as they are but for $, which some take for a formula."""
    words = [column.words or not number for number, column in enumerate(table.columns)]
    head = [_cell(Cell(text), word) for text, word in zip(table.headers, words, strict=True)]
    rule = ["---" if word else "--:" for word in words]
    rows = [[_cell(cell, word) for cell, word in zip(row, words, strict=True)] for row in table.rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'|'.join(rule)}|", *(f"| {' | '.join(row)} |" for row in rows)])


def _cell(cell: Cell, word: bool) -> str:
    if cell.verdict and cell.text == cell.verdict.value:
        return f"**{cell.text}**"
    return markdown(cell.text) if word else cell.text.replace("$", "\\$")
