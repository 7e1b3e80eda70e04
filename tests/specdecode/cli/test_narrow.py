"""At 80 columns no table cuts a figure or a name."""

from __future__ import annotations

import pytest
from specdecode.analysis import compare
from specdecode.analysis.report import render_terminal
from specdecode.analysis.verdict import compact
from specdecode.cli import app
from typer.testing import CliRunner

from tests.specdecode.analysis.simulate import context, experiment, run


@pytest.mark.parametrize("words", [["engines"], ["prompts", "list"], ["plan", "qwen3-32b"], ["plan", "llama-3.1-405b"]])
def test_no_cell_ends_in_dots(words: list[str]) -> None:
    result = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert [line for line in result.stdout.splitlines() if "…" in line and line.startswith(("│", "┃", "|"))] == []


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_reports_table_has_every_figure_whole(width: int) -> None:
    tested = experiment(requests=6)
    found = compare(experiment=tested, records=run(tested), context=context())
    text = render_terminal(found, width=width)
    begins = text.index("sd against base")
    table = text[begins : text.index("\n\n", begins)]
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= width
    for case in found.pairs[0].cases:
        assert case.headline
        for part in compact(case.headline).split():
            assert part in table
