"""The whole path: the rehearsal runs what `cdk deploy` brings to AWS, its answer is right, and no process is left."""

import base64
import hashlib
import json
import statistics
from collections import defaultdict

import pytest
from specdecode.analysis import Comparison
from specdecode.records import RequestRecord

pytestmark = pytest.mark.slow


def template(rehearsed, stack):
    return json.loads((rehearsed.assembly / f"{stack}.template.json").read_text())["Resources"]


def resolved(value, arns):
    """A Fn::Join as text, references to functions as their ARNs."""
    separator, parts = value["Fn::Join"]
    return separator.join(part if isinstance(part, str) else arns[part["Fn::GetAtt"][0]] for part in parts)


def test_both_runs_ended_as_they_should(rehearsed):
    assert (rehearsed.succeeded.status, rehearsed.succeeded.cause) == ("SUCCEEDED", "")
    assert rehearsed.failed.status == "FAILED"


def test_the_definition_that_ran_is_the_templates(rehearsed):
    [machine] = [
        resource
        for resource in template(rehearsed, "SpecDecodeStack").values()
        if resource["Type"] == "AWS::StepFunctions::StateMachine"
    ]
    expected = resolved(machine["Properties"]["DefinitionString"], rehearsed.arns)
    ran = rehearsed.executed["definition"]
    assert hashlib.sha256(ran.encode()).hexdigest() == hashlib.sha256(expected.encode()).hexdigest()
    assert json.loads(ran)["QueryLanguage"] == "JSONata"


def test_the_functions_code_is_the_assemblys(rehearsed):
    assets = json.loads((rehearsed.assembly / "SpecDecodeStack.assets.json").read_text())["files"]
    [bundle] = [
        rehearsed.assembly / asset["source"]["path"]
        for asset in assets.values()
        if asset["source"]["path"].endswith(".zip") and "bundle" in asset.get("displayName", "").lower()
    ]
    expected = base64.b64encode(hashlib.sha256(bundle.read_bytes()).digest()).decode()
    pipeline = {name: sha for name, sha in rehearsed.executed.items() if name.startswith("SpecDecodeStack-Pipeline")}
    assert len(pipeline) >= 10
    assert set(pipeline.values()) == {expected}


def test_metrics_arrive_under_the_samples_names(rehearsed):
    names = {metric["MetricName"] for metric in rehearsed.metrics}
    assert {
        "TTFT", "InterTokenLatency", "EndToEndLatency", "RequestOutputThroughput", "InputTokens", "OutputTokens",
    } <= names  # fmt: skip
    dimensions = [{d["Name"]: d["Value"] for d in metric["Dimensions"]} for metric in rehearsed.metrics]
    assert {d["Variant"] for d in dimensions} == {"Base", "SD"}
    assert {frozenset(d) for d in dimensions} >= {frozenset({"Variant", "TestCase"})}
    assert rehearsed.dashboards


def test_the_run_folder_is_complete(rehearsed):
    files = {path.relative_to(rehearsed.folder).as_posix() for path in rehearsed.folder.rglob("*") if path.is_file()}
    assert {"experiment.yaml", "plan.json", "state.json", "report.html", "report.md", "report.json"} <= files
    assert {f"raw/{arm}/{case}.jsonl" for arm in ("base", "sd") for case in ("repeat-line", "library-docs")} <= files
    html = (rehearsed.folder / "report.html").read_text()
    assert "<html" in html
    assert "http://" not in html.replace("http://www.w3.org", "")


def test_the_reports_figures_follow_from_the_raw_files_beside_it(rehearsed):
    comparison = Comparison.model_validate_json((rehearsed.folder / "report.json").read_bytes())
    totals, times = defaultdict(int), defaultdict(list)
    for path in (rehearsed.folder / "raw").rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            record = RequestRecord.model_validate_json(line)
            if not record.warmup:
                assert record.error is None
                assert record.completion_tokens == record.requested_output_tokens == 48
                totals[record.variant, record.case] += record.completion_tokens
                times[record.variant, record.case].append(record.end_s)
    assert len(totals) == 4
    for key, total in totals.items():
        arm = comparison.arm(*key)
        assert (arm.completed, arm.output_tokens) == (8, total)
        assert arm.metrics["end_to_end_latency"].p50 == pytest.approx(statistics.median(times[key]))
        assert arm.metrics["end_to_end_latency"].max == pytest.approx(max(times[key]))


def test_both_arms_wrote_the_same(rehearsed):
    comparison = Comparison.model_validate_json((rehearsed.folder / "report.json").read_bytes())
    [pair] = comparison.pairs
    assert [(case.equality.compared, case.equality.identical) for case in pair.cases] == [(8, 8), (8, 8)], (
        "two rounds of four"
    )


def test_every_state_was_shown_with_its_time(rehearsed):
    steps = "Plan StageModels AcquireCapacity StartCheck Compile Serve Smoke Benchmark StopArms Report"
    for state in steps.split():
        assert f"✓   {state} " in rehearsed.log
    assert "✓ Deploy both stacks" in rehearsed.log


def test_a_look_takes_three_events_of_the_history_and_leaves_its_line_of_progress(rehearsed):
    _, *pages = json.loads(rehearsed.came_out[f"history/{rehearsed.folder.name}"])
    stays, said = [], set()
    for event in (event for page in pages for event in page):
        state = event.get("stateEnteredEventDetails", {}).get("name")
        if state and (not stays or stays[-1][0] != state):
            stays.append((state, []))
        if stays:
            stays[-1][1].append(event["type"])
        if event["type"] == "TaskFailed":
            failed = event["taskFailedEventDetails"]
            assert failed["error"] == "LookAgainIn15s"
            said.add((stays[-1][0], json.loads(failed["cause"])["errorMessage"]))
    waited = [(name, kinds.count("TaskScheduled"), len(kinds)) for name, kinds in stays if kinds.count("TaskFailed")]
    assert {"StageModels", "AcquireCapacity", "Compile", "Serve", "Benchmark"} <= {name for name, _, _ in waited}
    for name, looks, events in waited:
        assert events <= 4 * looks, name
    assert {name for name, _ in said} == {name for name, _, _ in waited}
    assert any("of 2 arms are ready" in line for name, line in said if name == "Serve")


def test_a_killed_engine_fails_the_run_with_a_readable_cause(rehearsed):
    assert rehearsed.failed.error == "BenchmarkFailed"
    assert "died under load" in rehearsed.failed.cause
    assert "Traceback" not in rehearsed.failed.cause


def test_diagnostics_are_kept(rehearsed):
    kept = rehearsed.diagnostics / "diagnostics"
    assert json.loads((kept / "diagnosis.json").read_text())["cause"]
    for arm in ("base", "sd"):
        # A killed engine is started again, so its first lines may be in the log of the previous container.
        logs = "".join(path.read_text() for path in kept.glob(f"logs/*-{arm}-*.main*.log"))
        assert "vllm serve" in logs
    assert json.loads((kept / "events.json").read_text())


def test_nothing_that_costs_money_is_left(rehearsed):
    assert rehearsed.replicas == {"after success": 0, "after failure": 0}
    assert rehearsed.claims == []


def test_no_process_is_left(rehearsed):
    assert rehearsed.left == []
