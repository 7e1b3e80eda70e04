"""Every number of a report, recomputed from its raw files by a script that shares nothing with the project."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from specdecode.analysis import compare_measured, measure
from specdecode.analysis.datums import metric_data, request_data
from specdecode.analysis.report import render_csv, render_terminal
from specdecode.measures.accounting import Accounting

from tests.specdecode.analysis import recompute, recompute_forms
from tests.specdecode.analysis.simulate import context, experiment, run, write_raw
from tests.specdecode.analysis.simulate import request as one_request


@pytest.fixture(params=["rehearsal-cpu", "0.9.1-sdk2.26.1"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run as it lies in the bucket: raw files and report.json; two rounds, three k, some failures.

    On an engine of each kind: k + 1 tokens a step at most, and k.
    """
    import random

    tested = experiment(ks=(3, 7, 11), requests=10, rounds=2, engine=request.param)
    records, around = list(run(tested, seed=4)), context()
    failed = one_request(variant="base", case="sonnet", index=99, rng=random.Random(1), failed=True, sent_s=1e6)
    warmup = one_request(variant="base", case="sonnet", index=0, rng=random.Random(1))
    records += [failed, warmup.model_copy(update={"warmup": True})]
    write_raw(tmp_path, records)
    levels = measure(experiment=tested, records=records, context=around)
    comparison = compare_measured(experiment=tested, levels=levels, context=around)
    (tmp_path / "report.json").write_text(comparison.json_document())
    (tmp_path / "report.csv").write_text(render_csv(comparison))
    (tmp_path / "terminal.txt").write_text(render_terminal(comparison, width=250))
    sent = request_data(tested, levels, Accounting("usage"))
    (tmp_path / "cloudwatch.json").write_text(json.dumps([*sent, *metric_data(comparison)]))
    return tmp_path


ONE = pytest.mark.parametrize(
    "folder", ["rehearsal-cpu", pytest.param("0.9.1-sdk2.26.1", marks=pytest.mark.slow)], indirect=True
)
"""What the scripts do is shown on one kind of engine; on the other by a suite of its own."""


def test_every_number_is_recomputed(folder: Path) -> None:
    check = recompute.recompute(folder)
    assert check.wrong == []
    assert check.checked > 900


@ONE
def test_the_script_notices_a_wrong_number(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    report["pairs"][0]["cases"][0]["speedups"][0]["low"] *= 1.001
    report["arms"][0]["metrics"]["ttft"]["p90"] += 1e-5
    report["arms"][1]["cost_per_million"] *= 2
    (folder / "report.json").write_text(json.dumps(report))
    assert len(recompute.recompute(folder).wrong) == 3


@ONE
def test_the_script_stands_alone(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", recompute.__file__, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all equal" in done.stdout
    for script in Path(recompute.__file__).parent.glob("recompute*.py"):
        assert not re.search(r"^\s*(from|import) (specdecode|tests)\b", script.read_text(), re.M), script.name


def test_every_number_of_the_table_of_cloudwatch_and_of_the_terminal_is_recomputed(folder: Path) -> None:
    check = recompute_forms.recompute(folder)
    assert check.wrong == []
    assert check.checked > 2000


@ONE
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("report.csv", r",speedup,sd-k7,base,repeat,,time_per_output_token,ratio,10,.*?,(\d\.\d\d)", "9.99"),
        ("report.csv", r",aggregate,base,,repeat,,output_throughput,tokens/s,*(\d+)", "77777"),
        ("report.csv", r",(pays),", "costs"),
        ("terminal.txt", r"repeat .*?pays.*?(\d\.\d\d)×", "9.87"),
        ("terminal.txt", r"repeat .*?→ \$(\d+\.\d\d)", "0.02"),
        ("terminal.txt", r"repeat .*?(\d+) of 20", "3"),
        ("terminal.txt", r"Use .*?(\d\.\d\d)×", "8.88"),
        ("terminal.txt", r"For which prompts\?[^×]*?(\d\.\d\d)×", "8.88"),
        ("cloudwatch.json", r'"MetricName": "Speedup".*?"Values": \[(\d\.\d)', "7.7"),
        ("cloudwatch.json", r'"MetricName": "TTFT".*?"Values": \[(\d\.\d+)', "0.9"),
        ("cloudwatch.json", r'"MetricName": "(TTFT)"', "Wait"),
    ],
)
def test_one_wrong_number_in_any_of_them_is_noticed(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    found = re.search(old, text)
    assert found, text[:2000]
    (folder / name).write_text(text[: found.start(1)] + new + text[found.end(1) :])
    assert recompute_forms.recompute(folder).wrong
