"""The tables of measured figures are those of benchmarks/results, and every benchmark is in its index."""

from __future__ import annotations

import json
from typing import Any

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


def test_the_table_of_truth_is_the_measured_one() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    for row in results("client_truth")["rows"]:
        e = row["errors"]
        line = (
            f"| {row['streams']} | {row['chunks']:,} | {e['ttft_mean_ms']:.3f} | {e['tpot_mean_percent']:.4f} "
            f"| {e['chunk_mean_ms']:.3f} | {e['chunk_p99_ms']:.3f} | {e['chunk_worst_ms']:.1f} |"
        )
        assert line in page, line


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


def test_the_table_of_loads_is_the_measured_one_and_holds_its_promises() -> None:
    found = results("load_curve")
    page = (ROOT / "docs" / "metrics.md").read_text()
    for line in (
        f"| of {found['runs']} simulated runs, {found['requests']} requests and more at each load | share |",
        f"| crossover at {found['true_crossover']:.1f}: one is found | {found['found']:.1%} |",
        f"| … within 10% of the true one | {found['within_10_percent']:.1%} |",
        f"| … its 95% interval holds the true one | {found['covered']:.1%} |",
        *(
            f"| no crossover, {name}: one is claimed | {share:.1%} |"
            for name, share in found["claimed_without"].items()
        ),
        f"at every load | {found['schedule_within_2_percent']:.1%} |",
    ):
        assert line in page, line
    assert found["runs"] >= 100
    assert found["within_10_percent"] >= 0.95 and found["schedule_within_2_percent"] >= 0.95
    assert max(found["claimed_without"].values()) <= 0.05
