"""docs/reference/faults.csv, and the parts of faults.md that end-to-end cases write; what people wrote stays."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md"
CASES = PAGE.with_suffix(".csv")
"""A line for each fault of a run."""
WRITERS = {
    "overhead": "tests/end_to_end/faults",
    "endurance": "tests/end_to_end/endurance",
    "hardships": "tests/end_to_end/hardship.py",
    "chaos": "tests/chaos",
}
"""Part -> the file whose run writes it."""
ENDURANCE = ["| thrown at it | measured | held |", "|---|---|---|"]
HARDSHIPS = ["| what was done | when | exit | what it said | until its end |", "|---|---|---|---|---|"]
CHAOS = [
    "| fault | draws with it | runs that succeeded | failed | were stopped | causes of failed runs | broken promises |",
    "|---|--:|--:|--:|--:|---|--:|",
]
LONGEST_CAUSE = 120
Row = tuple[str, ...]


def write_faults(rows: Sequence[Row]) -> None:
    """Put the rows of faults of a run on the only node into their table; what became of a run beside stays."""
    known = {row[0]: row for row in cases()}
    for row in rows:
        beside = known[row[0]][-1] if row[0] in known else "-"
        known[row[0]] = (*row[:3], _first_sentence(row[3]), *row[4:], beside)
    _write_cases(known.values())


def write_beside(became: Mapping[str, str]) -> None:
    """Put what became of a run on the other node into the rows of `became`'s faults."""
    _write_cases((*row[:-1], became.get(row[0], row[-1])) for row in cases())


def cases() -> list[Row]:
    """The lines of the table of faults, its head apart."""
    return [tuple(row) for row in csv.reader(CASES.read_text("utf-8").splitlines())][1:]


def _write_cases(rows: Iterable[Row]) -> None:
    text = io.StringIO()
    head = CASES.read_text("utf-8").splitlines()[0]
    csv.writer(text, lineterminator="\n").writerows(rows)
    CASES.write_text(f"{head}\n{text.getvalue()}", "utf-8")


def write_endurance(rows: Sequence[Row]) -> None:
    """Put the rows of load and endurance into their table."""
    _write_rows("endurance", ENDURANCE, rows, key=1)


def write_hardships(rows: Sequence[Row]) -> None:
    """Put the rows of what was done to a rehearsal itself into their table."""
    _write_rows("hardships", HARDSHIPS, rows, key=2)


def write_chaos(rows: Sequence[Row]) -> None:
    """Put the kinds of drawn faults into their table."""
    _write_rows("chaos", CHAOS, rows, key=1)


def _write_rows(name: str, head: Sequence[str], rows: Sequence[Row], *, key: int) -> None:
    """Renew a table's rows, which their first `key` cells name; those of cases that did not run this time stay."""
    renewed = {row[:key]: row for row in (tuple(map(_cell, row)) for row in rows)}
    kept = [renewed.pop(row[:key], row) for row in _rows(name)]
    lines = [f"| {' | '.join(row)} |" for row in [*kept, *renewed.values()]]
    PAGE.write_text(replaced(PAGE.read_text("utf-8"), name, [*head, *lines]), "utf-8")


def _rows(name: str) -> list[Row]:
    table = [line for line in part(PAGE.read_text("utf-8"), name) if line.startswith("| ")][1:]
    return [tuple(line.strip("| ").split(" | ")) for line in table]


def _first_sentence(cause: str) -> str:
    """assets/diagnosis.yaml has them whole."""
    first = re.split(r"(?<=[a-z0-9)])\. ", cause)[0].rstrip(".")
    return first if len(first) <= LONGEST_CAUSE else first[: LONGEST_CAUSE - 1].rstrip() + "…"


def _cell(text: str) -> str:
    return text.replace("|", "/")


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
