"""The pages of docs/reference, written from the code: `python -m tools.reference`. A test keeps them current."""

from collections.abc import Sequence

import constructs_lib  # noqa: F401 - before any `aws_cdk`, as it says

MARK = "<!-- Written by `python -m tools.reference`; edit the code that it describes instead. -->"


def page(title: str, *parts: str) -> str:
    """A page from its title and its parts, with one empty line between them."""
    return "\n\n".join([f"# {title}", MARK, *(part.strip("\n") for part in parts)]) + "\n"


def between(text: str, subject: str, body: str) -> str:
    """`text` with `body` between the two marks of `subject`. The rest of such a page is written by hand.

    Raises ValueError if the page lacks a mark.
    """
    begin, end = f"<!-- {subject}: written by `python -m tools.reference` -->", f"<!-- end of {subject} -->"
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"the page has lost `{begin}` or `{end}`")
    return f"{before}{begin}\n\n{body}\n\n{end}{after}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table. In a cell a vertical bar is escaped, and a line break becomes a space."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
