"""Every figure over the load, recomputed from raw files by a script that shares nothing with the project."""

import json
import re
import shutil
from pathlib import Path

import pytest
from specdecode.analysis import compare_measured, measure
from specdecode.analysis.datums import llmperf_files
from specdecode.analysis.report import write_report
from specdecode.experiment.workload import Slo
from specdecode.measures.accounting import Accounting

from tests.specdecode.analysis import recompute, recompute_load
from tests.specdecode.analysis.simulate import context, write_raw
from tests.specdecode.analysis.simulate_load import Server, loads, run


@pytest.fixture(scope="module", params=["at a time", "a second", pytest.param("two rounds", marks=pytest.mark.slow)])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as it lies in the bucket: two types of prompts, a crossover, failures, a doubtful load and a full one."""
    folder, open_loop = tmp_path_factory.mktemp("run"), request.param == "a second"
    rounds = 2 if request.param == "two rounds" else 1
    sizes = (0.5, 1.0, 4.0) if open_loop else (8, 1, 2, 80) if rounds > 1 else (8, 1, 2, 4, 16, 32, 80)
    slo = Slo(ttft_s=0.1, tpot_s=0.021, share=0.7)
    tested = loads(sizes, slo=slo, open_loop=open_loop, cases=2, rounds=rounds)
    servers = {"base": Server(), "sd": Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)}
    records = []
    for number, record in enumerate(run(tested, servers, seed=5, shared=0.01)):
        late = record.level == ("c2" if rounds > 1 else "c16") and number % 3 != 0
        failed = record.level in ("c8", "r4") and record.index == 3 and record.variant == "sd"
        error = {"kind": "timeout", "message": "too late", "http_status": None}
        change = {"time_doubt_s": 0.02 if late else 0.0, "warmup": False, "round": record.round if rounds > 1 else 0}
        written = json.loads(record.model_copy(update=change).model_dump_json())
        records.append(type(record).model_validate(written | ({"error": error, "chunks": []} if failed else {})))
    write_raw(folder, records)
    levels = measure(experiment=tested, records=records, context=context())
    write_report(compare_measured(experiment=tested, levels=levels, context=context()), folder)
    for name, text in llmperf_files(tested.workload, levels, served={}, model="m", accounting=Accounting("usage")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "run"))


def test_every_figure_over_the_load_is_recomputed(folder: Path) -> None:
    check = recompute_load.recompute(folder)
    assert check.wrong == []
    assert check.checked > 1000
    report = json.loads((folder / "report.json").read_text())
    closed = report["experiment"]["workload"].get("rate") is None
    curve = report["curve"][0]
    assert len(curve["cases"]) == 2 and len(curve["crossovers"]) == closed
    assert any(point["doubtful"] for point in curve["points"]) == closed
    assert any(point["queueing"] for point in curve["points"]) == closed
    once = "around a smooth curve" if closed else "assumed"
    assert curve["shared_from"] == (once if report["experiment"]["workload"]["rounds"] == 1 else "between rounds")


def test_what_is_of_the_first_load_is_recomputed_from_it_alone(folder: Path) -> None:
    check = recompute.recompute(folder)
    assert check.wrong == []
    assert check.checked > 200


WRONG = {
    "report.json": [
        r'"shared": ?(0\.\d\d)',
        r'"curve": \[.*?"speedup": \{\s*"metric":[^}]*?"high": (\d\.\d\d)',
        r'"user_speed": ?(\d+\.\d)',
        r'"ttft_p95": ?(0\.\d\d)',
        r'"break_even": ?(\d\.\d)',
        r'"under_way": ?(\d+\.\d)',
        r'"good": ?(\d+)',
        r'"keeps": \{[^}]*?"(?:concurrency|rate)": (\d)',
    ],
    "report.html": [
        r'"curves": ?\[.*?"ratio": ?(\d\.\d)',
        r'"curves": ?\[.*?"user_speed": ?(\d)',
        r'"curves": ?\[.*?"tpot_p50": ?0\.0(\d)',
    ],
    "report.md": [r"over the load.*?\| (\d\.\d\d)× \(", r"over the load.*?\) \| ([\d.,]+) → "],
}


ONE = pytest.mark.parametrize(
    "written",
    ["a second", *(pytest.param(name, marks=pytest.mark.slow) for name in ("at a time", "two rounds"))],
    indirect=True,
)
"""What the script does is shown on the shortest run; on the others by a suite of its own."""


@ONE
@pytest.mark.parametrize(("name", "pattern"), [(name, each) for name, all_of in WRONG.items() for each in all_of])
def test_one_wrong_figure_is_noticed(folder: Path, name: str, pattern: str) -> None:
    path = folder / name
    text = path.read_text()
    found = re.search(pattern, text, re.S)
    assert found, pattern
    last = found[1][-1]
    changed = text[: found.end(1) - 1] + ("4" if last != "4" else "7") + text[found.end(1) :]
    path.write_text(changed)
    assert recompute_load.recompute(folder).wrong


@pytest.mark.parametrize("written", ["at a time"], indirect=True)
def test_a_crossover_elsewhere_and_a_wrong_file_of_llmperf_are_noticed(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    report["curve"][0]["crossovers"][0]["low"] *= 0.9
    (folder / "report.json").write_text(json.dumps(report))
    one = next(path for path in (folder / "llmperf").rglob("*_summary.json"))
    one.write_text(re.sub(r'("results_ttft_s_mean": )[\d.]+', r"\g<1>9.9", one.read_text()))
    wrong = recompute_load.recompute(folder).wrong
    assert any("crossover low" in text for text in wrong) and any("ttft_s mean" in text for text in wrong)
