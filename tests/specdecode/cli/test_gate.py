"""`specdecode gate` on folders: exit codes, files, and how runs are named."""

import json
import xml.etree.ElementTree as Xml
from functools import partial
from pathlib import Path

import pytest
from specdecode.analysis.report import write_report

from tests.specdecode.analysis.several_runs.test_gate import simulated
from tests.specdecode.cli import calling

call = partial(calling.call, "gate")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for name, slow in (("a1", 1.0), ("a2", 1.0), ("same", 1.0), ("slow", 1.2), ("near", 1.031)):
        write_report(simulated(len(list(root.iterdir())) + 1, slow=slow), root / name)
    return root


@pytest.mark.parametrize(
    ("after", "outcome", "code"), [("same", "passed", 0), ("slow", "failed", 1), ("near", "cannot tell", 4)]
)
def test_each_outcome_has_its_own_exit_code(runs: Path, after: str, outcome: str, code: int) -> None:
    result = call(f"{runs}/a1..{runs}/{after}", "--max-regression", "3%", code=code)
    assert result.stdout.endswith(f"Gate: {outcome}\n")
    document = json.loads(call(f"{runs}/a1..{runs}/{after}", "--max-regression", "3%", "--json", code=code).stdout)
    assert document["outcome"] == outcome
    assert {check["arm"] for check in document["checks"]} == {"base", "sd"}


def test_both_files_are_written_and_the_summary_is_added_to(runs: Path, tmp_path: Path) -> None:
    junit, summary = tmp_path / "gate.xml", tmp_path / "summary.md"
    summary.write_text("# before\n")
    call(
        f"{runs}/a1..{runs}/slow", "--max-regression", "3%", "--min-speedup", "1.2",
        "--junit", junit, "--summary", summary, code=1,
    )  # fmt: skip
    assert [len(list(Xml.parse(junit).iter(kind))) for kind in ("testcase", "failure")] == [3, 2]
    text = summary.read_text()
    assert text.startswith("# before\n")
    assert "### specdecode gate: failed" in text


def test_paths_with_dots_and_repeats_are_understood(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = runs / "a1"
    monkeypatch.chdir(inside)
    document = json.loads(call("../a1/report.json,../a2..../same", "--max-regression", "5%", "--json", code=0).stdout)
    assert (document["against"], document["runs"]) == (["run-1-1", "run-2-1"], ["run-3-1"])
    call("../same", "--min-speedup", "1.2", code=0)


@pytest.mark.usefixtures("no_region")
def test_mistyped_folders_are_named_at_once_and_ask_for_nothing_of_aws() -> None:
    said = call("one..two", "--max-regression", "3%", code=2).stderr
    assert said.startswith("error: one, two: no such file or folder here. To look for runs of the bucket:")
    said = call("one/x..two/y", "--max-regression", "3%", code=2).stderr
    assert said == "error: one/x, two/y: no such file or folder\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["A"], "no such file"),
        (["a..", "--max-regression", "3%"], "write RUN, BEFORE..AFTER"),
        (["RUNS/a1,", "--min-speedup", "1"], "write RUN, BEFORE..AFTER"),
        (["RUNS/a1..RUNS/same", "--max-regression", "much"], "write a percentage from 0% to 99%"),
        (["RUNS/a1..RUNS/same", "--max-regression", "nan"], "write a percentage"),
        (["RUNS/a1..RUNS/same", "--max-regression", "0.03"], "write a percentage"),
        (["RUNS/a1"], "no limit is given"),
        (["RUNS/a1", "--min-speedup", "1.2", "--load", "7"], "no run was measured at a load of 7: 4 at a time"),
        (["RUNS/a1..RUNS/same", "--max-regression", "3%", "--junit", "/no/such/folder/x.xml"], "No such file"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_message(runs: Path, words: list[str], said: str) -> None:
    result = call(*(word.replace("RUNS", str(runs)).replace("A", "/nowhere/a") for word in words), code=2)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_no_folder_is_walked_through_for_files_that_could_be_meant(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "rglob", lambda *_: pytest.fail("a gate on / would take minutes"))
    call(runs / "a1", "--min-speedup", "1.2", "--junit", tmp_path / "gate.xml")


@pytest.mark.parametrize("option", ["--junit", "--summary"])
def test_what_cannot_be_written_is_the_answer(runs: Path, option: str) -> None:
    """A full disk is found only while it is written to."""
    result = call(f"{runs}/a1", "--min-speedup", "1.2", "--json", option, "/dev/full", code=2)
    document = json.loads(result.stdout)
    assert document["exit_code"] == 2 and "outcome" not in document
    assert document["error"] == "/dev/full: No space left on device: name another path, or mend this one"
    assert result.stderr == f"error: {document['error']}\n"


def test_no_file_of_a_run_and_no_other_answer_is_written_over(runs: Path, tmp_path: Path) -> None:
    report, own = runs / "a1" / "report.json", runs / "a1" / "gate.xml"
    before = report.read_bytes()
    for run in (report, report.parent):
        said = call(run, "--min-speedup", "1.2", "--junit", report, "--summary", report, code=2).stderr
        assert said.count(f"{report}: the command reads it: name another file") == 2 and report.read_bytes() == before
    said = call(report, "--min-speedup", "1.2", "--junit", tmp_path / "x", "--summary", tmp_path / "x", code=2).stderr
    assert f"--summary {tmp_path}/x: --junit writes it" in said and not (tmp_path / "x").exists()
    call(report, "--min-speedup", "1.2", "--junit", "/dev/null", "--summary", "/dev/null")
    for _ in range(2):
        call(report.parent, "--min-speedup", "1.2", "--junit", own, code=0)
    own.unlink()
