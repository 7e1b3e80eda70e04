"""docs/reference/controls.csv: every control names tests that exist, and what came out when they last ran."""

import re
from collections import Counter

import pytest

from tests.docs.markdown import exists
from tools.security_results import TABLE, Row, filled, main, outcomes, result, rows

ROWS = rows(TABLE.read_text("utf-8"))
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_b" name="test_c[one]"/><testcase classname="tests.a.test_b" name="test_c[two]"/>
<testcase classname="tests.a.test_b" name="test_d"><failure>no</failure></testcase>
<testcase classname="tests.a.test_e" name="test_f"><skipped/></testcase>
</testsuite></testsuites>"""


def test_the_table_is_there() -> None:
    areas = {row.area for row in ROWS}
    assert {"pods", "functions", "network", "data", "secrets", "supply chain", "untrusted text", "bills"} <= areas
    assert len(ROWS) >= 30
    assert len({row.control for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.control)
def test_every_named_test_exists(row: Row) -> None:
    assert [test for test in row.tests if not exists(test)] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.control)
def test_every_control_was_seen_to_hold(row: Row) -> None:
    assert re.fullmatch(r"\d+ passed, 20\d\d-\d\d-\d\d", row.result), "run python -m tools.security_results"


def test_results_come_from_pytests_report() -> None:
    found = outcomes(REPORT)
    assert found == {
        "tests/a/test_b.py::test_c": Counter(passed=2),
        "tests/a/test_b.py::test_d": Counter(failed=1),
        "tests/a/test_e.py::test_f": Counter(skipped=1),
    }
    assert result(["tests/a/test_b.py::test_c"], found, day="2026-01-02") == "2 passed, 2026-01-02"
    assert result(["tests/a/test_b.py"], found, day="2026-01-02") == "**1 failed**, 2 passed, 2026-01-02"
    assert result(["tests/a/test_e.py"], found, day="2026-01-02") == "0 passed, 1 skipped, 2026-01-02"
    with pytest.raises(KeyError):
        result(["tests/a/test_g.py"], found, day="2026-01-02")


def test_a_new_row_has_no_result_and_a_word_that_names_no_test_runs_none(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows("area,control,tests,last result\npods,a,tests/x.py,\n")
    assert (row.tests, row.result) == (("tests/x.py",), "")
    assert main(["nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_only_new_results_are_written() -> None:
    text = "area,control,tests,last result\npods,a,tests/x.py,old\npods,b,tests/y.py tests/z.py::t,old\n"
    fresh = filled(text, {("tests/y.py", "tests/z.py::t"): "new"})
    assert fresh == text.replace("tests/z.py::t,old", "tests/z.py::t,new")
