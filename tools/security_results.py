"""Run the tests that docs/reference/controls.csv names and write their results into its column "last result".

.venv/bin/python -m tools.security_results              every line: minutes, most of them for rehearsals
.venv/bin/python -m tools.security_results tests/stacks  only lines with a test whose name holds one of the words
"""

import csv
import io
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "reference" / "controls.csv"
HEAD = ("area", "control", "tests", "last result")


@dataclass(frozen=True)
class Row:
    """A line of the table of controls."""

    area: str
    control: str
    tests: tuple[str, ...]
    """Files, or functions as `file::name`."""
    result: str


def rows(text: str) -> list[Row]:
    """The lines of the table."""
    return [
        Row(area, control, tuple(tests.split()), result)
        for area, control, tests, result in [*csv.reader(text.splitlines())][1:]
    ]


def outcomes(report: str) -> dict[str, Counter[str]]:
    """Test function (`file::name`, all its parameters together) -> how many passed, failed, were skipped."""
    found: dict[str, Counter[str]] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):  # noqa: S314 (pytest's own file)
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '').partition('[')[0]}"
        found.setdefault(name, Counter())[outcome] += 1
    return found


def result(tests: Iterable[str], found: Mapping[str, Counter[str]], *, day: str) -> str:
    """The text `12 passed, 2026-11-21`. Raises KeyError for a test without a result."""
    total: Counter[str] = Counter()
    for test in tests:
        counts = [count for name, count in found.items() if name == test or name.startswith(f"{test}::")]
        if not counts:
            raise KeyError(test)
        for count in counts:
            total += count
    said = [f"**{total['failed']} failed**" if total["failed"] else "", f"{total['passed']} passed"]
    said.append(f"{total['skipped']} skipped" if total["skipped"] else "")
    return ", ".join([*(part for part in said if part), day])


def filled(text: str, results: Mapping[tuple[str, ...], str]) -> str:
    """The table with new results in the lines that have any."""
    renewed = [(row.area, row.control, " ".join(row.tests), results.get(row.tests, row.result)) for row in rows(text)]
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([HEAD, *renewed])
    return table.getvalue()


def main(words: list[str]) -> int:
    text = TABLE.read_text("utf-8")
    chosen = [row.tests for row in rows(text) if not words or any(word in test for word in words for test in row.tests)]
    if not chosen:
        print(f"No line of {TABLE.name} names a test with {' or '.join(words)} in its name.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        tests = sorted({test for tests in chosen for test in tests})
        code = subprocess.run(
            [sys.executable, "-m", "pytest", f"--junitxml={report}", "-o", "junit_family=xunit1", *tests],
            cwd=ROOT,
            check=False,
        ).returncode
        found = outcomes(report.read_text("utf-8"))
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    # What a test of the run wrote into the table meanwhile stays.
    TABLE.write_text(
        filled(TABLE.read_text("utf-8"), {tests: result(tests, found, day=day) for tests in chosen}), "utf-8"
    )
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
