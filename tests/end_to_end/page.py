"""The tables beside docs/reference/faults.md, and its part, that end-to-end cases write."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md"
WRITERS = {
    "overhead": "tests/end_to_end/faults",
}
"""Part -> the file whose run writes it."""
LONGEST_CAUSE = 120
Row = tuple[str, ...]


def write_faults(rows: Sequence[Row]) -> None:
    """Put the rows of faults of a run on the only node into their table; what became of a run beside stays."""
    beside = {row[0]: row[-1] for row in rows_of("faults")}
    write("faults", [(*row[:3], _first_sentence(row[3]), *row[4:], beside.get(row[0], "-")) for row in rows], key=1)


def write_beside(became: Mapping[str, str]) -> None:
    """Put what became of a run on the other node into the rows of `became`'s faults."""
    write("faults", [(*row[:-1], became.get(row[0], row[-1])) for row in rows_of("faults")], key=1)


def write(name: str, rows: Sequence[Row], *, key: int) -> None:
    """Renew rows of a table (faults, endurance, hardships, chaos), which their first `key` cells name; those of cases
    that did not run this time stay.
    """
    path = PAGE.with_name(f"{name}.csv")
    renewed = {row[:key]: row for row in rows}
    kept = [renewed.pop(row[:key], row) for row in rows_of(name)]
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([*kept, *renewed.values()])
    head = path.read_text("utf-8").splitlines()[0]
    path.write_text(f"{head}\n{table.getvalue()}", "utf-8")


def rows_of(name: str) -> list[Row]:
    """The lines of a table, its head apart."""
    return [tuple(row) for row in csv.reader(PAGE.with_name(f"{name}.csv").read_text("utf-8").splitlines())][1:]


def _first_sentence(cause: str) -> str:
    """assets/diagnosis.yaml has them whole."""
    first = re.split(r"(?<=[a-z0-9)])\. ", cause)[0].rstrip(".")
    return first if len(first) <= LONGEST_CAUSE else first[: LONGEST_CAUSE - 1].rstrip() + "…"


def write_part(name: str, lines: Sequence[str]) -> None:
    """Replace the part `name` of the page."""
    PAGE.write_text(replaced(PAGE.read_text("utf-8"), name, lines), "utf-8")


def part(text: str, name: str) -> list[str]:
    """The lines of the part `name`."""
    return text.partition(_begin(name))[2].partition(_end(name))[0].splitlines()


def replaced(text: str, name: str, lines: Sequence[str]) -> str:
    """`text` with other lines in the part `name`. A part that is not there is an error."""
    before, found, rest = text.partition(_begin(name))
    _, closed, after = rest.partition(_end(name))
    assert found, f"{PAGE.name} has no part {name}"
    assert closed, f"{PAGE.name}: the part {name} has no end"
    return "".join([before, _begin(name), "\n\n", "\n".join(lines), "\n\n", _end(name), after])


def _begin(name: str) -> str:
    return f"<!-- {name}: written by {WRITERS[name]} -->"


def _end(name: str) -> str:
    return f"<!-- end of {name} -->"
