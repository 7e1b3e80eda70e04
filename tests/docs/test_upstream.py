"""docs/upstream.md: every fact has a source and tests that exist, and every comparison with upstream is in it."""

import re
from dataclasses import dataclass

import pytest

from tests.docs.markdown import ROOT, exists, named_tests

PAGE = (ROOT / "docs" / "upstream.md").read_text("utf-8")


@dataclass(frozen=True)
class Row:
    what: str
    fact: str
    source: str
    tests: tuple[str, ...]


ROWS = [
    Row(what, fact, source, tuple(re.findall(r"`(tests/[^`]+)`", tests)))
    for what, fact, source, tests in re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| (`tests/[^|]+) \|$", PAGE, re.MULTILINE
    )
]


def test_no_line_is_left_out_and_none_is_twice() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what |")]
    assert len(lines) == len(ROWS) == len({row.what for row in ROWS})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_every_fact_has_a_source_and_tests_that_exist(row: Row) -> None:
    assert re.search(r"\]\(|oci://", row.source)
    assert [test for test in row.tests if not exists(test)] == []


def test_every_comparison_is_of_a_fact() -> None:
    made = {
        f"{path.relative_to(ROOT)}::{name}"
        for path in (ROOT / "tests" / "upstream").glob("against_*.py")
        for name in named_tests(str(path.relative_to(ROOT)))
    }
    named = {test for row in ROWS for test in row.tests if "/against_" in test}
    assert made == named
