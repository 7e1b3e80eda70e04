"""What a report consists of: sections in one order, each of few kinds of blocks. Every form walks the same ones."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from specdecode.analysis.results.pairs import Verdict


class Column(NamedTuple):
    """A heading, and what its figures are."""

    header: str
    title: str = ""
    """Unit and formula, or meaning. Empty if the heading says all."""
    words: bool = False
    """Its cells are words, on the left, and may have come from outside. All others are figures."""


SPEEDUP = Column(
    "speed-up (95% CI)",
    "Output tokens a second of whole requests, arm / baseline; geometric mean with its interval over prompts",
)


class Cell(NamedTuple):
    """What a cell shows."""

    text: str
    verdict: Verdict | None = None
    """Verdict that colours it."""
    title: str = ""
    """What the page says of it, if not what it says of the whole column."""


class ReportTable(NamedTuple):
    """Columns and rows. The first column names the row."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    note: str = ""
    """How to read it, below it."""

    @property
    def headers(self) -> list[str]:
        return [column.header for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        return [[cell.text for cell in row] for row in self.rows]


class Text(NamedTuple):
    text: str


class Listing(NamedTuple):
    """Sentences, one below the other; `named`: what stands before each (`Model`), else empty."""

    items: Sequence[tuple[str, str]]
    title: str = ""


class Code(NamedTuple):
    """Lines that a reader pastes into a terminal or a file."""

    text: str


class Drawing(NamedTuple):
    """A part that only the page has: charts, and tables too long for a terminal. `item` is given to its template."""

    template: str
    item: Any = None


class More(NamedTuple):
    """Blocks that the page folds under a title."""

    title: str
    blocks: Sequence["Block"]


Block = ReportTable | Text | Listing | Code | Drawing | More


class Section(NamedTuple):
    """A question of the reader, its answer in a sentence or two, and what it rests on."""

    id: str
    title: str
    says: str
    blocks: Sequence[Block] = ()
    folded: bool = False
    """For who wants to know everything: the page folds it as a whole."""


def listed(*items: str, title: str = "") -> Listing:
    """Sentences without a name."""
    return Listing([("", item) for item in items], title)


def kept(*blocks: Block) -> list[Block]:
    """Those that show something."""
    return [each for each in blocks if not _empty(each)]


def _empty(block: Block) -> bool:
    match block:
        case More(blocks=inner):
            return all(map(_empty, inner))
        case Drawing(item=item):
            return item is not None and not item
        case ReportTable(rows=rows):
            return not rows
    return not block[0]
