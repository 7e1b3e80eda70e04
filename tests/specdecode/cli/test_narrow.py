"""At 80 columns no table cuts a figure or a name."""

import pytest
from specdecode.analysis import compare
from specdecode.analysis.report import render_terminal
from specdecode.analysis.report.over_load import curve_table
from specdecode.analysis.results.numbers import compact
from specdecode.cli import app
from specdecode.experiment.workload import Slo
from typer.testing import CliRunner

from tests.specdecode.analysis.simulate import context, of_types
from tests.specdecode.analysis.simulate_load import Server, loads
from tests.specdecode.analysis.simulate_load import run as run_loads

ARM = Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)


@pytest.mark.parametrize("words", [["engines"], ["prompts", "list"], ["plan", "qwen3-32b"], ["plan", "llama-3.1-405b"]])
def test_no_cell_ends_in_dots(words: list[str]) -> None:
    result = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert [line for line in result.stdout.splitlines() if "…" in line and line.startswith(("│", "┃", "|"))] == []


@pytest.mark.parametrize(("types", "width"), [(2, 60), (2, 80), (2, 140), (9, 80), (24, 60), (24, 100)])
def test_the_reports_table_has_every_figure_whole(types: int, width: int) -> None:
    found = of_types(types)
    text = render_terminal(found, width=width)
    begins = text.index("sd against base")
    table = text[begins : text.index("The verdict follows")]
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= width
    short = render_terminal(found, width=width, brief=True)
    assert max(map(len, short.splitlines())) <= width and len(short.splitlines()) <= 50
    for case in found.pairs[0].cases:
        assert case.headline
        for part in compact(case.headline).split():
            assert part in table


@pytest.mark.parametrize("width", [60, 80, 120, 300])
def test_the_table_over_the_load_is_no_wider_and_has_every_cell(width: int) -> None:
    """Columns that have no room stand below, beside the load again."""
    tested = loads((1, 4, 32), slo=Slo(tpot_s=0.021))
    found = compare(
        experiment=tested, records=run_loads(tested, {"base": Server(), "sd": ARM}, seed=1), context=context()
    )
    text = render_terminal(found, width=width)
    begins = text.index("sd over the load")
    table = text[begins : text.index("Every interval includes")]
    assert max(map(len, table.splitlines())) <= width
    (curve,) = found.curve[:1]
    for row in curve_table(found, curve).texts:
        assert all(cell in table for cell in row)
        assert sum(line.startswith(row[0]) for line in table.splitlines()) == table.count("\nload ")
    assert (table.count("\nload ") > 1) == (width < 150), "no block is begun without need"
