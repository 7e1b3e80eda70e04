"""The commands about answers, on folders and on a bucket; at 80 columns no table cuts a figure or a name."""

from __future__ import annotations

import json
import re
import shutil
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.report import render_terminal, write_report
from specdecode.analysis.report.over_load import curve_table
from specdecode.analysis.results.numbers import compact
from specdecode.cli import app, runs_deployment
from specdecode.cli.runs_deployment import Execution
from specdecode.experiment import BenchmarkArm, BenchmarkSpec, load_preset, to_yaml
from specdecode.experiment.workload import Slo
from typer.testing import CliRunner

from tests.specdecode.analysis.simulate import context, experiment, of_types, run, write_raw
from tests.specdecode.analysis.simulate_load import Server, loads
from tests.specdecode.analysis.simulate_load import run as run_loads
from tests.specdecode.benchmark import making
from tests.specdecode.cli.calling import call

LLMPERF = Path(__file__).resolve().parents[1] / "analysis" / "other_tools" / "llmperf"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one experiment; in the second, speculation got worse."""
    root = tmp_path_factory.mktemp("runs")
    for name, cost, day in (("run-a", 0.12, 20), ("run-b", 0.30, 21)):
        tested = experiment()
        around = context(run_id=name, started_at=f"2026-11-{day}T12:00:00Z", versions={"engine image": name})
        write_report(compare(experiment=tested, records=run(tested, draft_cost=cost), context=around), root / name)
    return root


class Bucket:
    """A deployment whose bucket is a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = self

    def execution(self, run_id: str | None) -> Any:
        return type("Execution", (), {"run_id": run_id or "run-b"})

    def executions(self, *, limit: int) -> list[Execution]:
        seen = (("run-c", "RUNNING", "22T12"), ("run-b", "SUCCEEDED", "21T13"))
        return [Execution(name, f"arn:{name}", how, f"2026-11-{at}:00:00+01:00", None) for name, how, at in seen]

    def read(self, key: str) -> bytes | None:
        path = self.root / key.removeprefix("runs/")
        return path.read_bytes() if path.exists() else None

    def folders(self, prefix: str) -> list[str]:
        assert prefix == "runs/"
        return sorted(path.name for path in self.root.iterdir())

    def url(self, key: str) -> str:
        return f"s3://bucket/{key}"


@pytest.fixture
def bucket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_deployment, "Deployment", lambda **given: Bucket(folder))


def test_report_of_a_folder_shows_the_answer(folder: Path) -> None:
    shown = call("report", folder / "run-a").stdout
    assert "pays on the structured prompts measured" in shown
    assert "\x1b[" not in shown, "no colours where there is no terminal"


@pytest.mark.parametrize(
    ("form", "start"), [("html", "<!doctype html>"), ("markdown", "# "), ("csv", "run_id,kind"), ("json", "{")]
)
def test_report_prints_every_form(folder: Path, form: str, start: str) -> None:
    assert call("report", folder / "run-a", "--format", form).stdout.startswith(start)


def test_report_of_a_run_id_comes_from_the_bucket(bucket: None) -> None:
    assert json.loads(call("report", "run-a", "--json").stdout)["run_id"] == "run-a"
    assert json.loads(call("report", "--json").stdout)["run_id"] == "run-b", "the newest"


def test_a_run_without_report_is_told_apart_from_a_missing_one(bucket: None) -> None:
    assert "no report yet" in call("report", "run-z", code=1).stderr
    assert "no such file" in call("report", "some/where", code=2).stderr


def test_open_writes_all_forms_and_opens_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.chdir(tmp_path)
    call("report", folder / "run-a", "--open")
    written = tmp_path / "results" / "run-a"
    assert sorted(path.name for path in written.iterdir()) == ["report.csv", "report.html", "report.json", "report.md"]
    assert opened == [(written / "report.html").as_uri()]


def test_a_folder_of_raw_files_is_compared_anew(tmp_path: Path) -> None:
    tested = load_preset("qwen3-32b")
    load = tested.workload.model_copy(update={"cases": tested.workload.cases[:2], "output_tokens": 60})
    tested = tested.model_copy(update={"workload": load})
    (tmp_path / "experiment.yaml").write_text(to_yaml(tested))
    write_raw(tmp_path, run(tested))
    (tmp_path / "accuracy").mkdir()
    (tmp_path / "accuracy" / "sd.json").write_text('{"results": {"gsm8k": {"exact_match,strict-match": 0.8}}}')
    tickets = {"name": "tickets", "version": "3", "licence": "ours", "sha256": "5f" * 32, "prompts": 7}
    servers = {"run_id": "run-1", "arms": {"base": {"prefix_caching": True}}, "sets": [tickets]}
    (tmp_path / "servers.json").write_text(json.dumps(servers))
    document = json.loads(call("report", tmp_path, "--json", "--price", "35.76").stdout)
    assert [(item["variant"], item["value"]) for item in document["context"]["accuracy"]] == [("sd", 0.8)]
    assert document["context"]["price_per_node_hour"] == 35.76
    assert (document["context"]["sets"], document["context"]["prefix_caching"]) == ([tickets], {"base": True})
    assert len(document["pairs"][0]["cases"]) == 2
    assert document["arms"][0]["cost_per_million"] > 0
    (tmp_path / "accuracy" / "sd.json").write_text("[]")
    assert "sd.json is no result of lm-eval" in call("report", tmp_path, code=2).stderr


def test_what_is_no_report_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    assert "report.json: no report: run_id is missing" in call("report", tmp_path, code=2).stderr
    (tmp_path / "report.json").unlink()
    assert "neither report.json, nor raw" in call("report", tmp_path, code=2).stderr
    (tmp_path / "experiment.yaml").write_text(to_yaml(load_preset("qwen3-32b")))
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.jsonl").write_text("{}\n")
    assert "line 1 is no record" in call("report", tmp_path, code=2).stderr
    (record, *_) = run(experiment(requests=4))
    other = record.model_copy(update={"run_id": ""}).model_dump_json()
    (tmp_path / "raw" / "a.jsonl").write_text(other)
    assert "raw: run_id: " in call("report", tmp_path, code=2).stderr
    (tmp_path / "raw" / "b.jsonl").write_text(record.model_dump_json())
    assert "holds records of 2 runs ('', 'run-1')" in call("report", tmp_path, code=2).stderr


@pytest.mark.parametrize("form", ["terminal", "html", "markdown", "csv"])
def test_a_node_that_costs_nothing_has_no_cost_to_compare(form: str, tmp_path: Path) -> None:
    tested = experiment(requests=4)
    (tmp_path / "experiment.yaml").write_text(to_yaml(tested))
    write_raw(tmp_path, run(tested))
    assert "against $" not in call("report", tmp_path, "--format", form, "--price", "0").stdout
    assert "1000000 or less" in call("report", tmp_path, "--price", "1e308", code=2).stderr


def test_a_price_for_a_report_that_is_there_is_refused(tmp_path: Path) -> None:
    write_report(compare(experiment=experiment(), records=list(run(experiment())), context=context()), tmp_path)
    for at in (tmp_path, tmp_path / "report.json"):
        said = call("report", at, "--price", "999", code=2).stderr
        assert "report.json is shown with the price it was made with: --price is for a folder without" in said


def test_a_record_that_took_no_time_is_reported(tmp_path: Path) -> None:
    tested = experiment(requests=4)
    (tmp_path / "experiment.yaml").write_text(to_yaml(tested))
    first, *others = run(tested)
    write_raw(tmp_path, [first.model_copy(update={"end_s": 1e-300}), *others])
    document = json.loads(call("report", tmp_path, "--json").stdout)
    arm = next(arm for arm in document["arms"] if arm["variant"] == first.variant)
    assert arm["metrics"]["request_output_throughput"]["n"] == arm["completed"] - 1


def test_a_report_of_another_version_is_made_anew_from_its_records(tmp_path: Path) -> None:
    tested, folder = experiment(requests=4), tmp_path / "run"
    write_report(compare(experiment=tested, records=list(run(tested)), context=context()), folder)
    old = json.loads((folder / "report.json").read_text()) | {"schema_version": 2, "decision": {"action": "use"}}
    (folder / "report.json").write_text(json.dumps(old))
    for words in (["report", folder], ["winner", folder], ["gate", folder, "--min-speedup", "1"]):
        (told,) = call(*words, code=2).stderr.splitlines()
        assert "a report of another version" in told and "made anew from the run's folder with its raw/" in told
    (folder / "experiment.yaml").write_text(to_yaml(tested))
    write_raw(folder, run(tested))
    shown = call("report", folder)
    assert "compared anew from raw/" in shown.stderr and "Use sd" in shown.stdout


def test_the_schema_is_printed() -> None:
    assert json.loads(call("report", "--schema").stdout) == Comparison.model_json_schema()


def test_one_run_a_side_cannot_tell_a_change_and_says_what_would(folder: Path) -> None:
    shown = call("compare", folder / "run-a", folder / "run-b").stdout
    assert "worse" not in shown and "better" not in shown
    assert "engine image: run-a -> run-b" in shown and "repeat both" in shown
    document = json.loads(call("compare", folder / "run-a", folder / "run-b", "--json").stdout)
    change = document["cases"][0]["change"]
    assert change["high"] is None
    assert change["ratio"] == pytest.approx((1 + 7 * 0.12 + 0.1) / (1 + 7 * 0.3 + 0.1), rel=0.12)


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs of one version and three of another, whose drafts cost more; runs differ by some per cent."""
    root = tmp_path_factory.mktemp("repeated")
    folders = []
    for version, cost in (("old", 0.12), ("new", 0.30)):
        for number in range(3):
            tested, name = experiment(requests=4), f"{version}-{number}"
            around = context(run_id=name, versions={"engine image": version})
            records = run(tested, draft_cost=cost, seed=number, slow={("sd", 0): 1.0 + 0.03 * number})
            write_report(compare(experiment=tested, records=records, context=around), root / name)
            folders.append(root / name)
    return folders


def test_runs_of_two_versions_are_compared_by_what_varies_between_runs(repeated: list[Path]) -> None:
    document = json.loads(call("compare", *repeated, "--json").stdout)
    assert (document["before"], document["after"]) == (["old-0", "old-1", "old-2"], ["new-0", "new-1", "new-2"])
    change = document["cases"][0]
    assert change["shown"] and change["change"]["high"] < 1
    within = json.loads((repeated[0] / "report.json").read_text())["pairs"][0]["cases"][0]["headline"]
    assert change["before"]["speedup"]["n"] == 3
    assert change["before"]["speedup"]["high"] - change["before"]["speedup"]["low"] > within["high"] - within["low"]
    assert "worse" in call("compare", *repeated).stdout


def test_no_change_is_shown_between_runs_of_two_questions(repeated: list[Path], tmp_path: Path) -> None:
    others = []
    for folder in repeated[3:]:
        document = json.loads((folder / "report.json").read_text())
        document["experiment"]["target"]["id"] = "another"
        others.append(tmp_path / f"{folder.name}.json")
        others[-1].write_text(json.dumps(document))
    document = json.loads(call("compare", *repeated[:3], *others, "--json").stdout)
    assert document["incomparable"] and {case["shown"] for case in document["cases"]} == {False}


def test_runs_of_one_question_are_taken_together(repeated: list[Path]) -> None:
    document = json.loads(call("compare", *repeated[:3], "--json").stdout)
    assert document["runs"] == ["old-0", "old-1", "old-2"]
    assert document["cases"]["sd/repeat"]["speedup"]["n"] == 3
    assert "over 3 runs (95% CI)" in call("compare", *repeated[:3]).stdout
    newest = json.loads(call("runs", "--folder", repeated[0].parent, "--json").stdout)[-1]
    assert newest["over_runs"]["sd/structured"]["n"] == 3


def test_what_a_report_does_not_judge_is_named_below(tmp_path: Path) -> None:
    for name in ("late-a", "late-b"):
        records = [each.model_copy(update={"time_doubt_s": 0.5}) for each in run(experiment())]
        write_report(compare(experiment=experiment(), records=records, context=context(run_id=name)), tmp_path / name)
    shown = call("compare", tmp_path / "late-a", tmp_path / "late-b").stdout
    assert shown.startswith("No arm and case is in all of the runs.")
    assert "  late-a: sd/repeat, sd/sonnet: the load generator fell behind" in shown


def test_a_run_is_no_evidence_against_itself(folder: Path) -> None:
    assert "given twice" in call("compare", folder / "run-a", folder / "run-a", code=2).stderr
    assert "two runs or more" in call("compare", folder / "run-a", code=2).stderr


def test_a_run_that_lies_in_two_folders_is_learned_from_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "run-a", "results/run-a")
    asked = (["runs", "--folder", "results", "--json"], ["evidence", "export"], ["advise", "results/run-a", "--json"])
    before = [call(*words).stdout for words in asked]
    shutil.copytree("results/run-a", "results/copy")
    for words, told in zip(asked, before, strict=True):
        again = call(*words, *(["--run", "results/copy"] if "advise" in words else []))
        assert again.stdout == told and "run-a is there twice: it counts once" in again.stderr


def test_runs_of_another_load_are_named_and_not_judged(folder: Path, tmp_path: Path) -> None:
    tested = experiment()
    busier = tested.model_copy(update={"workload": tested.workload.model_copy(update={"concurrency": (16,)})})
    found = compare(experiment=busier, records=run(busier), context=context(run_id="busy"))
    write_report(found, tmp_path / "busy")
    shown = call("compare", folder / "run-a", tmp_path / "busy").stdout
    assert "workload.concurrency: 4 -> 16" in shown and "not comparable" in shown
    refused = call("advise", folder / "run-a", "--run", tmp_path / "busy", code=2).stderr
    assert "nothing can be learned" in refused and "workload.concurrency: 4 -> 16" in refused


def test_runs_lists_states_and_answers_the_newest_last(folder: Path, bucket: None) -> None:
    """Those of the bucket with what Step Functions remembers: run-a it has forgotten, run-c has no report yet."""
    for arguments, states in (
        (("--folder", folder), {"run-a": None, "run-b": None}),
        ((), {"run-a": None, "run-b": "SUCCEEDED", "run-c": "RUNNING"}),
        (("--experiment", experiment().name), {"run-a": None, "run-b": "SUCCEEDED"}),
    ):
        points = json.loads(call("runs", *arguments, "--json").stdout)
        assert list({point["run_id"]: point["status"] for point in points}.items()) == list(states.items())
        assert points[0]["speedups"]["sd/structured"] > points[1]["speedups"]["sd/structured"]
    shown = call("runs").stdout
    assert re.search("2026-11-22 11:00 +run-c +RUNNING +– +–\\n", shown) and "over runs like run-b" in shown
    assert "no run yet" in call("runs", "--folder", folder, "--experiment", "other").stdout


def test_runs_draws_the_trend(folder: Path, tmp_path: Path) -> None:
    call("runs", "--folder", folder, "--out", tmp_path / "trend.html")
    page = (tmp_path / "trend.html").read_text()
    assert page.count('data-chart="trend"') == 3, "all, structured, open-ended"
    assert "run-a" in page
    assert "no trend" in call("runs", "--folder", tmp_path, "--out", tmp_path / "x.html", code=2).stderr
    taken = call("runs", "--folder", folder, "--out", folder / "run-a" / "report.json", code=2).stderr
    assert "the command reads it: name another file" in taken
    full = call("runs", "--folder", folder, "--out", "/dev/full", code=2).stderr
    assert full == "error: /dev/full: No space left on device: name another path, or mend this one\n"


def test_a_broken_report_among_many_is_left_out_with_a_word(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "report.json").write_text("{")
    result = call("runs", "--folder", tmp_path)
    assert "left out" in result.stderr


def test_advise_orders_a_preset_and_learns_from_runs_like_it_only(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # runs in the checkout's results would count as evidence
    before = json.loads(call("advise", "qwen3-32b-tuning", "--json").stdout)
    assert len(before["candidates"]) == 22
    assert before["compile_next"]["variant"] is not None
    told = call("advise", "qwen3-32b-tuning", "--run", folder / "run-a", code=2).stderr
    assert "workload.output_tokens: 600 -> 200" in told
    alone = json.loads(call("advise", folder / "run-a", "--json").stdout)
    both = json.loads(call("advise", folder / "run-a", "--run", folder / "run-b", "--json").stdout)
    assert alone["best"]["draft"] == "Qwen/Qwen3-1.7B"
    assert both["best_speedup"] < alone["best_speedup"], "in run-b the draft costs more"
    every = call("advise", folder / "run-a", "--run", folder / "run-b", "--runs", folder, "--json").stdout
    assert json.loads(every) == both, "a run that is given does not count once more as evidence"


def test_nothing_is_promised_of_open_ended_prompts_before_a_measurement() -> None:
    found = json.loads(call("advise", "qwen3-32b-tuning", "--group", "open-ended", "--json").stdout)
    assert all(candidate["low"] < 1 for candidate in found["candidates"])


def test_advise_on_a_run_proposes_other_ks_of_its_draft(folder: Path) -> None:
    shown = call("advise", folder / "run-b").stdout
    assert "Best so far: sd" in shown
    structured = json.loads(call("advise", folder / "run-b", "--group", "structured", "--json").stdout)
    assert structured["best"] == {"draft": "Qwen/Qwen3-1.7B", "k": 7, "variant": "sd"}


def test_parts_of_a_sweep_are_one_table_however_their_names_are_given(tmp_path: Path) -> None:
    whole = experiment(ks=(3, 7))
    for name, arm in (("sweep-1", "sd-k3"), ("sweep-2", "sd-k7")):
        tested = whole.model_copy(update={"variants": tuple(v for v in whole.variants if v.name in ("base", arm))})
        found = compare(experiment=tested, records=run(tested), context=context(run_id=name))
        write_report(found, tmp_path / name)
    first, second = (str(tmp_path / name) for name in ("sweep-1", "sweep-2"))
    shown = call("compare", first, second).stdout
    assert "sd-k3" in shown and "sd-k7" in shown and "were measured on different nodes" in shown
    assert call("compare", f"{first},{second}").stdout == shown
    found = json.loads(call("compare", first, second, "--json").stdout)
    assert {arm["variant"]: arm["run_id"] for arm in found["arms"]} == {"sd-k3": "sweep-1", "sd-k7": "sweep-2"}


def test_import_makes_a_report_of_llmperf_results(tmp_path: Path) -> None:
    arms = [f"{name}={LLMPERF / 'llama-3.1-405b' / name}" for name in ("base", "sd")]
    about = "--about sd:k=7 --about sd:draft=meta-llama/Llama-3.2-1B-Instruct --about sd:quantization=fp8"
    result = call("import", *arms, *about.split(), "--out", tmp_path)
    assert "4.78×" in result.stdout
    assert "another tokenizer" in result.stdout
    assert (tmp_path / "report.html").exists()
    assert f"All of it: specdecode report {tmp_path} --full\n" in result.stdout
    assert "specdecode report" not in call("import", *arms).stdout, "nothing was written that it could show"


def test_no_report_is_written_over_one_of_another_run(folder: Path, tmp_path: Path) -> None:
    arms = [f"{name}={LLMPERF / 'qwen3-32b' / name}" for name in ("base", "sd")]
    for _ in range(2):
        call("import", *arms, "--out", tmp_path)
    before = (tmp_path / "report.json").read_text()
    said = call("report", folder / "run-a", "--out", tmp_path, code=2).stderr
    assert said.startswith(f"error: {tmp_path}: the report of import-base-sd-") and "name another folder" in said
    assert (tmp_path / "report.json").read_text() == before


def test_a_folder_of_a_bare_benchmark_gets_the_same_report(tmp_path: Path) -> None:
    tested = experiment()
    spec = BenchmarkSpec(
        run_id="bench-1",
        experiment="bench",
        wave=0,
        round=0,
        model="m",
        arms=(BenchmarkArm(variant="base", label="base"), BenchmarkArm(variant="sd", label="sd")),
        workload=tested.workload,
    )
    (tmp_path / "benchmark.json").write_text(spec.model_dump_json())
    write_raw(tmp_path, run(tested))
    document = json.loads(call("report", tmp_path, "--json").stdout)
    assert [(pair["baseline"], pair["variant"]) for pair in document["pairs"]] == [("base", "sd")]
    assert document["answer"].startswith("sd against base pays on the structured prompts measured")
    assert not any("merged" in note for note in document["notes"]), "only a baseline is known to be plain"
    (tmp_path / "servers.json").write_text('{"run_id": 5}')
    said = call("report", tmp_path).stderr
    assert f"left out {tmp_path}/servers.json: run_id: must be text" in said and "validation" not in said
    (tmp_path / "benchmark.json").write_text("{}")
    assert "benchmark.json" in call("report", tmp_path, code=2).stderr


def test_separators_that_only_text_knows_do_not_break_a_raw_file(tmp_path: Path) -> None:
    """A model may write U+2028 or U+0085; JSON keeps them as they are, and a line ends at a line feed only."""
    made = making.record([0.1, 0.2], tokens=2, variant="base", case="repeat-line", output="one\u2028two\x85three")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.jsonl").write_text(made.model_dump_json() + "\n", encoding="utf-8")
    (tmp_path / "experiment.yaml").write_text(to_yaml(load_preset("qwen3-32b")))
    assert call("report", tmp_path).exit_code == 0


@pytest.mark.usefixtures("no_region")
def test_without_a_run_and_a_region_the_newest_report_here_is_shown(folder: Path, tmp_path: Path) -> None:
    assert "no results/*/report.json here" in call("report", code=3).stderr
    (tmp_path / "results").symlink_to(folder)
    assert "the newest here: results/run-b" in call("report").stderr


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
