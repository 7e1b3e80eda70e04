"""Every text form of the report: what it says, and that nothing untrusted gets out of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError
from specdecode.analysis import Comparison
from specdecode.analysis.report import render_csv, render_html, render_markdown, render_terminal, tables
from specdecode.analysis.report.blocks import Cell, Column, ReportTable
from specdecode.analysis.results.comparison import RawFile
from specdecode.analysis.results.run_context import Compiled
from specdecode.analysis.texts.setting import setting
from specdecode.escape import line, markdown, script_json
from specdecode.records import raw_file

from tests.specdecode.analysis.simulate import context, simulated

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return simulated()


def test_markdown_shows_what_is_known_of_all_requests_together(comparison: Comparison) -> None:
    (label,) = (info.label for info in comparison.metrics if info.name == "acceptance_rate")
    rows = [row for row in render_markdown(comparison).splitlines() if row.startswith(f"| {label} |")]
    assert rows
    assert all(row.split("|")[2].strip() == "–" and row.split("|")[3].strip().endswith("%") for row in rows), rows


@pytest.mark.parametrize("render", [render_csv, render_html, render_markdown, render_terminal])
def test_a_report_that_was_read_back_says_the_same(render: Callable[[Comparison], str], comparison: Comparison) -> None:
    assert render(Comparison.model_validate_json(comparison.json_document())) == render(comparison)


def test_words_of_a_table_are_shown_as_text_and_figures_as_they_are(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that all forms share, whatever made it."""
    columns = (Column("*who*", words=True), Column("$/1M"))
    shared = ReportTable(columns, [(Cell("a|b \x1b[1m"), Cell("$0.50"))])
    monkeypatch.setattr(tables, "turn_table", lambda _: shared)
    text = render_markdown(comparison)
    assert "| \\*who\\* | \\$/1M |\n|---|--:|\n| a\\|b \\\\x1b\\[1m | \\$0.50 |" in text
    plain = render_terminal(comparison)
    assert "a|b \\x1b[1m  $0.50" in plain
    assert "\x1b" not in plain


def test_colours_come_only_when_asked_for(comparison: Comparison) -> None:
    assert "\x1b[" in render_terminal(comparison, colour=True)
    assert "\x1b[" not in render_terminal(comparison)


def test_every_shown_metric_carries_unit_and_formula(comparison: Comparison) -> None:
    page = render_html(comparison)
    measured = {name for arm in comparison.arms for name in (*arm.metrics, *arm.totals)}
    for info in comparison.metrics:
        if info.name not in measured:
            continue
        assert page.count(f"unit {info.unit}") > 0
        assert page.count(info.formula.replace("<", "&lt;")) >= 2, "on hover and in the table of formulas"


def test_json_round_trips_and_its_schema_is_the_committed_one(comparison: Comparison) -> None:
    assert Comparison.model_validate_json(comparison.json_document()) == comparison
    committed = json.loads((ROOT / "assets" / "schemas" / "comparison.schema.json").read_text())
    assert committed == Comparison.model_json_schema(), "run `python -m tools.reference`"


def test_escapes() -> None:
    assert line("a\nb\x00\x9b") == "a\\nb\\x00\\x9b"
    assert markdown("a|b*c<d>") == "a\\|b\\*c\\<d\\>"
    assert "<" not in script_json({"a": "</script><!--"})
    assert json.loads(script_json({"a": "</script>&\u2028"})) == {"a": "</script>&\u2028"}


def test_the_conditions_say_which_node_compiled_where_cpu_nodes_were_to():
    def said(*compiled: Compiled) -> str | None:
        return setting(simulated(around=context(compiled=compiled))).get("Compiled")

    assert said() is None
    assert said(Compiled(variant="base", on="cpu"), Compiled(variant="sd", on="accelerator", refused=True)) == (
        "base on CPU nodes before the node was held (their cost is not in the figures); "
        "sd on the node, since what a CPU node had compiled did not load"
    )
    assert said(Compiled(variant="base", on="accelerator")) == "base on the node in an earlier run"


def test_the_files_of_all_clients_can_be_named_and_no_other_path() -> None:
    of_a_file = TypeAdapter(RawFile)
    for client in (0, 1, 15):
        assert of_a_file.validate_python(raw_file("base", "repeat-line", client))
    for wrong in ("raw/base/a@b.jsonl", "raw/@x/a.jsonl", "../a.jsonl", "raw/base/a@.jsonl"):
        with pytest.raises(ValidationError):
            of_a_file.validate_python(wrong)
