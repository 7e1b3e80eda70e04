"""The tables of measured figures are those of benchmarks/results, and every benchmark is in its index."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from specdecode.analysis.loads.crossing import ASSUMED, LEVELS_FOR_A_CURVE
from specdecode.runs import lease as leases

from benchmarks import (
    client_http,
    client_levels,
    client_peers,
    client_truth,
    early_stop,
    load_curve,
    node_pool,
    recommendation,
    rehearsal_load,
    statistics_drift,
)  # fmt: skip
from tests.docs.markdown import ROOT

BENCHMARKS = ROOT / "benchmarks"


def results(name: str) -> Any:
    return json.loads((BENCHMARKS / "results" / f"{name}.json").read_text())


def test_the_index_names_every_program_and_result() -> None:
    text = (BENCHMARKS / "README.md").read_text()
    programs = [path for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()]
    missing = [path.name for path in [*programs, *(BENCHMARKS / "results").iterdir()] if f"{path.name}`" not in text]
    assert programs
    assert missing == []


def test_make_bench_runs_what_the_index_says() -> None:
    recipe = (ROOT / "Makefile").read_text().split("\nbench:")[1].split("\n\n")[0]
    sentence = (BENCHMARKS / "README.md").read_text().split("`make bench` runs ")[1].split(". It")[0]
    assert [word for word in sentence.split("`") if word.endswith(".py")] == [
        word.removeprefix("benchmarks/") for word in recipe.split() if word.startswith("benchmarks/")
    ]


@pytest.mark.parametrize(
    ("render", "name", "page"),
    [
        (client_truth.table, "client_truth", "benchmarks.md"),
        (client_http.table, "client_http", "benchmarks.md"),
        (lambda found: client_peers.table(found["rows"]), "client_peers", "benchmarks.md"),
        (lambda found: "\n".join(client_levels.lines(found)), "client_levels", "benchmarks.md"),
        (lambda found: "\n".join(rehearsal_load.table(found)), "rehearsal_load", "rehearsal/results.md"),
        (load_curve.table, "load_curve", "reference/simulations.md"),
        (statistics_drift.tables, "statistics_drift", "reference/simulations.md"),
        (early_stop.table, "early_stop", "reference/simulations.md"),
        (node_pool.table, "node_pool", "how-to/side-by-side.md"),
        (recommendation.table, "recommendation", "reference/simulations.md"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_table_of_a_page_is_the_measured_one(render: Callable[[Any], str], name: str, page: str) -> None:
    assert render(results(name)) in (ROOT / "docs" / page).read_text()


def test_no_load_breaks_its_bounds_unmarked() -> None:
    found = results("client_levels")
    for row in found["rows"]:
        assert row["doubtful"] or not row["broken"], row["streams"]
    assert 256 in [row["streams"] for row in found["rows"]] and not found["wrong"]


def test_the_curve_of_the_rehearsal_is_that_of_its_runs_with_the_machines_load() -> None:
    page, found = (ROOT / "docs" / "rehearsal" / "results.md").read_text(), results("rehearsal_load")
    assert len(found["runs"]) >= 3
    for run in found["runs"]:
        assert len(run["points"]) >= 6 and len(run["load_average"]) == 2
        assert f"load {run['load_average'][0]} to {run['load_average'][1]}" in page


def test_the_table_of_the_advisor_is_the_measured_one() -> None:
    page = (ROOT / "docs" / "explanation" / "how-the-advisor-thinks.md").read_text()
    found = results("advisor")["results"]
    for strategy, start in (
        ("advisor", "the advisor"),
        ("full grid", "every arm once"),
        ("bisection", "bisection over k"),
        ("random, 6 compiles", "six arms at random"),
        ("advisor, k+1 assumed", "an advisor that takes n for k"),
    ):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {start} |")]
        cells = [cell.strip() for cell in row.split("|")[2:-1]]
        for most, (share, compiles) in zip(("k+1", "k"), (cells[:2], cells[2:]), strict=True):
            if measured := found[most].get(strategy):
                assert share == f"{measured['within_3_percent'] * 100:.1f} %", row
                assert compiles.split(" ")[0] == f"{round(measured['mean_compiles'], 1):g}", row
            else:
                assert (share, compiles) == ("", ""), row


def test_the_table_of_loads_holds_its_promises() -> None:
    found = results("load_curve")
    assert found["runs"] >= 300
    assert min(found[name] for name in ("within_10_percent", "covered", "schedule_within_2_percent")) >= 0.95
    assert max(found["claimed_without"].values()) <= 0.05
    for row in (each for each in found["noisy"] if each["shared"] == each["shared_at_large"]):
        seen = row["rounds"] > 1 or len(row["levels"]) >= LEVELS_FOR_A_CURVE
        if seen or row["shared"] <= ASSUMED:
            assert row["claimed_of_equal_arms"] <= 0.05, row
            assert row["covered"] >= 0.85 * row["found"], row


def test_the_table_of_drift_holds_its_promises() -> None:
    found = results("statistics_drift")
    assert found["runs"] == 2000 and len(found["rows"]) >= 114
    assert len(found["differs_from_compare_in_200"]) >= 8 and not any(found["differs_from_compare_in_200"].values())
    for row in found["rows"]:
        assert row["held"] >= 0.94 and row["wrong"] <= 0.05 and row["headline"] <= 0.025, row
        if row["slow"] and "found 1.1" in row:
            assert row["held, gain"] >= 0.94 and row["found 1.1"] >= 0.7 and row["found 1.2"] >= 0.95, row
    rng = random.Random(3)
    for name, (types, prompts, rounds) in statistics_drift.CHECKED[:6]:
        machine = next(each for each in statistics_drift.MACHINES if each.name == name)
        drawn = statistics_drift.a_run(machine, types=types, prompts=prompts, rounds=rounds, spread=0.07, rng=rng)
        assert not statistics_drift.differs(drawn, rounds)


def test_the_table_of_early_stops_holds_its_promises() -> None:
    found = results("early_stop")
    assert found["runs"] == 2000
    for row in found["rows"]:
        assert row["wrong"] <= 0.05 and row["lost"] <= (0.065 if row["true"] == early_stop.MIXED else 0.01), row
        assert row["covered"] >= 0.94, row
        if row["true"] == early_stop.MIXED:
            assert row["median"] <= 0.4, row
    again = early_stop.row("heavy tail", 1.5, 50)
    assert again["same"] >= 0.9 and again["median"] <= 0.4


def test_nobody_in_a_queue_is_passed_over() -> None:
    found = results("node_pool")
    assert found["runs"] == 1000
    assert [(row["passed_over"], row["wrong"], row["left"]) for row in found["rows"]] == [(0, 0, 0)] * 10


def test_a_queue_in_which_somebody_is_passed_over_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation goes by the lease's own transitions; here the last of the queue is served first."""
    assert node_pool.simulate(4, 0.9, 120)["passed_over"] == 0

    def promote(lease: leases.Lease, **more: Any) -> leases.Lease:
        turned = leases.Lease(holders=lease.holders, queue=lease.queue[::-1])
        after = first_come(turned, **more)
        return leases.Lease(holders=after.holders, queue=after.queue[::-1])

    first_come = leases._promote
    monkeypatch.setattr(leases, "_promote", promote)
    assert node_pool.simulate(4, 0.9, 120)["passed_over"] > 0


def test_a_recommendation_says_what_one_node_cannot_show_and_a_gain_of_20_percent_is_told() -> None:
    """With arms that differ by up to 2.5% from node to node."""
    found = results("recommendation")
    assert found["runs"] == 2000
    assert all(row["not_asked"] <= 0.05 and row["right_1.2"] >= 0.95 for row in found["rows"])
    assert all(row["recommended"] <= 0.05 for row in found["rows"] if not row["apart"])
