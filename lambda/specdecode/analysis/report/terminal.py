"""The report as text: for a terminal, one screen of it or all; and as Markdown, for a pull request or a chat."""

from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from textwrap import wrap

from specdecode.analysis.report.blocks import Block, Cell, Code, Listing, More, ReportTable, Text
from specdecode.analysis.report.page import ReportView
from specdecode.analysis.report.sections import sections
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE
from specdecode.analysis.results.pairs import Verdict
from specdecode.escape import line, markdown

COLOURS = {Verdict.PAYS: 32, Verdict.COSTS: 31, Verdict.CANNOT_TELL: 33, Verdict.DISTRUST: 31}
"""ANSI's number of a verdict's colour."""
GAP = "  "
SCREEN = 50
"""Lines of one screen."""
LONGEST, SMALLEST = 3, 8
"""Most lines of a section's answer on one screen, and fewest that a table takes."""


def all_of(run: str | None) -> tuple[str, str]:
    """Last lines of one screen: the commands that show more. `run`: as the user names it; None: the newest."""
    command = " ".join(["specdecode report", *([] if run is None else [quote(run)])])
    return f"All of it: {command} --full", f"The page: {command} --open"


def render_terminal(
    comparison: Comparison, *, colour: bool = False, width: int = 120, brief: bool = False, more: Sequence[str] = ()
) -> str:
    """Every section as text; `brief`: at most SCREEN lines, `more` the last of them. `colour` adds ANSI colours."""
    view = ReportView(comparison)
    head = [text for text in (view.headline, view.at_first_load) if text]
    lines = [each for text in head for each in _wrapped(text, width)]
    lines += [each for doubt in view.doubts for each in _wrapped(f"but: {doubt}", width, most=2)]
    if not brief:
        parts = ["\n".join(lines), *_parts(view, width, colour)]
        return "\n\n".join(part for part in parts if part) + "\n"
    asked = [section for section in sections(view) if not section.folded]
    answers = [
        _wrapped(f"{each.title}{'' if each.title[-1] == '?' else ':'} {each.says}", width, most=LONGEST)
        if each.says
        else []
        for each in asked
    ]
    end = ["", *map(line, more)] if more else []
    room = SCREEN - len(lines) - sum(map(len, answers)) - len(end)
    for section, said in zip(asked, answers, strict=True):
        lines += said
        for table in (block for block in section.blocks if isinstance(block, ReportTable)):
            if room > SMALLEST:
                shown = ["", line(table.title), *_lines(table, width, colour, most=room - 3), ""]
                lines, room = lines + shown, room - len(shown)
    return "\n".join([*lines, *end]) + "\n"


def _parts(view: ReportView, width: int, colour: bool) -> Iterator[str]:
    for section in sections(view):
        body = [text for text in _blocks(section.blocks, width, colour) if text]
        if section.says or body:
            yield "\n".join([_bold(section.title, colour), *_wrapped(section.says, width)])
            yield from body


def _blocks(found: Iterable[Block], width: int, colour: bool) -> Iterator[str]:
    for block in found:
        match block:
            case Text(text):
                yield "\n".join(_wrapped(text, width))
            case Code(text):
                yield "\n".join(map(line, text.splitlines()))
            case Listing(items, title):
                told = [title, *(f"{name}: {said}" if name else said for name, said in items)]
                yield "\n".join(each for text in told for each in _wrapped(text, width))
            case ReportTable():
                yield "\n".join(
                    [*_wrapped(block.title, width), *_lines(block, width, colour), *_wrapped(block.note, width)]
                )
            case More(title, blocks):
                yield line(title)
                yield from _blocks(blocks, width, colour)


def _wrapped(text: str, width: int, *, most: int | None = None) -> list[str]:
    return wrap(
        line(text),
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
        max_lines=most,
        placeholder=" …",
    )


def _bold(text: str, colour: bool) -> str:
    return f"\x1b[1m{line(text)}\x1b[0m" if colour else line(text)


def _lines(table: ReportTable, width: int, colour: bool, *, most: int | None = None) -> list[str]:
    """Columns that do not fit follow below, beside the first one again: no line is wrapped by the terminal. With `most`
    lines they are left out, and so are the rows beyond.
    """
    rows = [[line(text) for text in row] for row in (table.headers, *table.texts)]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    filled = [n for n in range(1, len(sizes)) if any(row[n] not in ("", NONE) for row in rows[1:])]
    parts = [[0]]
    for column in filled:
        if len(parts[-1]) > 1 and sum(sizes[n] + len(GAP) for n in parts[-1]) + sizes[column] > width:
            parts.append([0])
        parts[-1].append(column)
    if most is not None:
        parts = parts[:1]
    shown = rows if most is None else rows[: max(2, most - 2)]
    found: list[str] = []
    for part in parts:
        found += [
            "",
            GAP.join(rows[0][n].ljust(sizes[n]) for n in part).rstrip(),
            GAP.join("-" * sizes[n] for n in part),
        ]
        for row, cells in zip(shown[1:], table.rows, strict=False):
            found.append(GAP.join(_coloured(row[n].ljust(sizes[n]), cells[n], colour) for n in part).rstrip())
    more = len(rows) - len(shown)
    return [*found[1:], *([f"… and {more} more rows"] if more else [])]


def _coloured(text: str, cell: Cell, colour: bool) -> str:
    number = COLOURS.get(cell.verdict) if cell.verdict else None
    return f"\x1b[{number}m{text}\x1b[0m" if colour and number else text


def render_markdown(comparison: Comparison) -> str:
    """The headline, what to doubt, then every section with all that is text."""
    view = ReportView(comparison)
    blocks = [f"# {markdown(comparison.title)}", f"**{markdown(view.headline)}**", markdown(view.at_first_load)]
    blocks += ["\n".join(f"> {markdown(doubt)}\n>" for doubt in view.doubts)]
    started = comparison.context.started_at
    when = f", {started:%Y-%m-%d %H:%M} UTC" if started.timestamp() > 0 else ""
    blocks.append(f"Run `{comparison.run_id}`{when}.")
    for section in sections(view):
        body = [markdown(section.says), *_markdown_blocks(section.blocks)]
        blocks += [f"## {markdown(section.title)}", *body] if any(body) else []
    return "\n\n".join(block for block in blocks if block) + "\n"


def _markdown_blocks(found: Iterable[Block]) -> Iterator[str]:
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
                yield _markdown_table(block)
                yield markdown(block.note)
            case More(title, blocks):
                yield f"### {markdown(title)}"
                yield from _markdown_blocks(blocks)


def _markdown_table(table: ReportTable) -> str:
    """Words are escaped, and set on the left. Figures stay as they are but for $, which some take for a formula."""
    words = [column.words or not number for number, column in enumerate(table.columns)]
    head = [_markdown_cell(Cell(text), word) for text, word in zip(table.headers, words, strict=True)]
    rule = ["---" if word else "--:" for word in words]
    rows = [[_markdown_cell(cell, word) for cell, word in zip(row, words, strict=True)] for row in table.rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'|'.join(rule)}|", *(f"| {' | '.join(row)} |" for row in rows)])


def _markdown_cell(cell: Cell, word: bool) -> str:
    if cell.verdict and cell.text == cell.verdict.value:
        return f"**{cell.text}**"
    return markdown(cell.text) if word else cell.text.replace("$", "\\$")
