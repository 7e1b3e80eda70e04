"""Faults, end to end: the deployed definition, zips and manifests on the embedded cloud; writes docs/reliability.md.

Not part of `make test` (it takes about twenty minutes, twice). Run it with

    .venv/bin/pytest tests/end_to_end/faults.py [-k one-node] [-k two-nodes]

Every case ends with the same checks: the right final status, a readable cause, no workload object left, the NodePool at
0 replicas, nobody holding the lease, and diagnostics where the run failed. With two nodes another run measures on the
other one, and must work on undisturbed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from specdecode import names, s3_keys
from specdecode.cli.runs_view import current_step
from specdecode.experiment import load_preset
from specdecode.prompts import digest

from rehearsal import overhead, overhead_table, tools
from rehearsal.execution import Run
from rehearsal.observer import Observer
from rehearsal.processes import processes_naming
from tests.end_to_end import broken
from tests.end_to_end.beside import Beside
from tests.end_to_end.cloud import LONG, PATIENT, SMALL, Cloud, deployed
from tests.end_to_end.page import write_beside, write_faults, write_part
from tests.rehearsal import elsewhere
from tests.specdecode.pod.fake_hub import COMMIT, FakeHub

pytestmark = pytest.mark.timeout(900)
LONGER_WAITS = 0.25
OVERHEAD = tools.ROOT / "benchmarks" / "results" / "overhead.json"


@pytest.fixture(scope="module", params=[1, 2], ids=["one-node", "two-nodes"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    with deployed(nodes=request.param) as running:
        made = Cloud(running)
        if request.param == 1:
            yield made
            write_faults(made.rows)
            return
        made.beside = Beside(made)
        yield made
        made.beside.finish()


@pytest.fixture(autouse=True)
def _no_faults(cloud: Cloud, request: pytest.FixtureRequest) -> Iterator[None]:
    one_node = request.node.get_closest_marker("one_node")
    if cloud.beside:
        if one_node:
            pytest.skip(one_node.args[0])
        cloud.rows.clear()
        cloud.beside.begin()
    yield
    cloud.control("faults", reset=True)
    cloud.stop_all()
    if cloud.beside:
        cloud.beside.check()
        write_beside({row[0]: cloud.beside.became for row in cloud.rows})


def fails(cloud: Cloud, run: Run, *, fault: str, where: str, error: str, row: str) -> None:
    end = cloud.ended(run)
    assert (end.status, end.error) == ("FAILED", error), end.cause
    found = cloud.diagnosis(run)
    assert found["row"] == row, found
    cloud.at_rest()
    cloud.note(fault, where, run, cause=found["cause"])


def succeeds(cloud: Cloud, run: Run, *, fault: str, where: str, remark: str = "") -> None:
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    cloud.at_rest()
    cloud.note(fault, where, run, cause="-", remark=remark)


@pytest.mark.one_node("it measures the time of the orchestration")
def test_nothing_goes_wrong(cloud):
    """From nothing, with staging and compiles. What the orchestration took of the node's time is written too.

    Waits are longer than in the other cases: a look of half a second must be short beside them, as it is on AWS.
    """
    cloud.forget("models/")
    cloud.forget("compiled/")
    seen = Observer(kubernetes=cloud.running.kubernetes)
    seen.watch()
    with cloud.waits(LONGER_WAITS):
        run = cloud.start("fine", SMALL | PATIENT)
        succeeds(cloud, run, fault="none", where="-", remark=", waits a quarter")
    state, plan = run.deployment.state(run.run_id), run.deployment.plan(run.run_id)
    history, spans = run.deployment.events(run.arn, newest=1000), seen.spans()
    found = overhead_table.document(
        overhead.shares(history, wait_scale=LONGER_WAITS, node=seen.node(state.node), spans=spans),
        spans,
        wait_scale=LONGER_WAITS,
        events=overhead.events_on_aws(history),
        worst=plan.worst_case_events,
    )
    assert sum(share["work_s"] for share in found["shares"]) > 0
    assert found["events"]["run"] < found["events"]["worst_case"] < 20_000
    OVERHEAD.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    write_part("overhead", overhead_table.lines(found))


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (429, "Kubernetes API answers 429 (8 times)"),
        (500, "Kubernetes API answers 500 (8 times)"),
        (503, "Kubernetes API answers 503 (8 times)"),
        (409, "Kubernetes API answers 409 to two writes"),
        (0, "Kubernetes API cuts 8 connections"),
    ],
)
def test_the_api_server_stumbles(cloud, code, fault):
    run = cloud.start("stumble")
    cloud.until_step(run, "AcquireCapacity")
    path = f"/namespaces/{names.NAMESPACE}/deployments" if code == 409 else f"/namespaces/{names.NAMESPACE}/"
    cloud.control("faults", api=[{"code": code, "count": 2 if code == 409 else 8, "path": path}])
    succeeds(cloud, run, fault=fault, where="Serve")


def test_no_capacity(cloud):
    cloud.control("faults", no_capacity=True)
    run = cloud.start("no-capacity")
    fails(
        cloud,
        run,
        fault="EC2 has no instance to give",
        where="AcquireCapacity",
        error="CapacityUnavailable",
        row="no-capacity",
    )


def test_the_node_never_becomes_ready(cloud):
    cloud.control("faults", node_never_ready=True)
    run = cloud.start("node-never-ready")
    fails(
        cloud,
        run,
        fault="the node never becomes Ready",
        where="AcquireCapacity",
        error="CapacityUnavailable",
        row="no-node",
    )


@pytest.mark.parametrize(
    ("switch", "fault"),
    [
        ("ami_missing", "the region has no such AMI: the EC2NodeClass is never Ready"),
        ("pool_invalid", "the NodePool is not valid, and so not Ready"),
    ],
)
def test_karpenter_makes_no_node(cloud, switch, fault):
    """It says so in a condition and nowhere else. The run ends long before its deadline for the node."""
    cloud.control("faults", **{switch: names.NODEPOOL})
    before = cloud.bought()
    run = cloud.start(switch.replace("_", "-"), SMALL | {"deadlines.capacity": 30})
    fails(cloud, run, fault=fault, where="AcquireCapacity", error="CapacityUnavailable", row="pool-not-ready")
    assert cloud.bought() == before, "an instance was bought"


@pytest.mark.one_node("no node is concerned")
def test_the_image_cannot_be_pulled(cloud):
    cloud.control("faults", image_pull_error="rehearsal/engine")
    cloud.forget("models/")
    run = cloud.start("image-pull")
    fails(
        cloud,
        run,
        fault="the engine's image cannot be pulled",
        where="StageModels",
        error="StagingFailed",
        row="image-pull",
    )


@pytest.mark.one_node("no node is concerned")
def test_a_prompt_does_not_fit_into_the_models_window(cloud):
    """Its words would fit; the staged tokenizer counts what they take. No instance is bought."""
    text = {"name": "umlauts", "label": "umlauts", "kind": "text", "text": "wörd " * 300, "structured": False}
    before = cloud.bought()
    run = cloud.start("too-long", SMALL | {"workload.cases": [text]})
    end = cloud.ended(run)
    assert "umlauts has 1" in end.cause and "max_model_len is 1024" in end.cause
    fails(
        cloud,
        run,
        fault="a prompt does not fit into the model's window, though its words would",
        where="StageModels",
        error="PromptsRefused",
        row="prompts-refused",
    )
    assert cloud.bought() == before, "an instance was bought"


TICKETS = b"".join(json.dumps({"prompt": f"List the teams that answer ticket {n}:"}).encode() + b"\n" for n in range(3))


def hub_set(data: bytes) -> dict[str, object]:
    hub = {"repo": "acme/tickets", "revision": COMMIT, "file": "data/tickets.jsonl"}
    prompts = [{"set": f"tickets@{digest(data)}", "categories": ["prompts"], "hub": hub}]
    return SMALL | {"workload.cases": [], "workload.prompts": prompts}


@pytest.mark.one_node("no node is concerned")
def test_a_set_of_the_hub_is_measured_and_kept(cloud):
    with FakeHub({}) as hub:
        hub.data = {"data/tickets.jsonl": TICKETS}
        cloud.control("faults", hub=hub.url)
        run = cloud.start("hub-set", hub_set(TICKETS))
        succeeds(cloud, run, fault="none: a set of prompts comes from the Hugging Face hub", where="-")
    assert cloud.stored(s3_keys.run_key(run.run_id, f"prompts/tickets@{digest(TICKETS)}.jsonl")) == TICKETS
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    (work,) = report["work"]
    assert [(each["case"], each["prompts"]) for each in work["categories"]] == [("prompts", 2)]
    again = cloud.start("hub-gone", hub_set(TICKETS))
    succeeds(cloud, again, fault="the hub is gone: the set that an earlier run fetched is measured", where="-")


@pytest.mark.one_node("no node is concerned")
@pytest.mark.parametrize(("served", "fault"), [(TICKETS + b"\n", "has another hash"), (None, "is not there any more")])
def test_a_file_of_the_hub_is_not_what_was_meant(cloud, served, fault):
    before = cloud.bought()
    meant = TICKETS + fault.encode()
    with FakeHub({}) as hub:
        hub.data = {} if served is None else {"data/tickets.jsonl": served}
        cloud.control("faults", hub=hub.url)
        run = cloud.start(f"hub-{len(fault)}", hub_set(meant))
        fails(
            cloud,
            run,
            fault=f"a set of prompts on the Hugging Face hub {fault}",
            where="StageModels",
            error="StagingFailed",
            row="prompts-hub",
        )
    assert cloud.bought() == before, "an instance was bought"


def test_the_bucket_cannot_be_mounted(cloud):
    run = cloud.start("mount-denied")
    cloud.until_step(run, "AcquireCapacity")
    cloud.control("faults", mount_denied="models")
    fails(cloud, run, fault="S3 denies the mount", where="Serve", error="ServeNotReady", row="s3-denied")


def test_the_mount_dies_while_the_servers_load(cloud):
    """A restarted container finds it dead too. What was compiled is kept, and a resumed run serves it."""
    run = cloud.start("mount-dies", SMALL | PATIENT)
    cloud.until_step(run, "AcquireCapacity")
    cloud.control("faults", mount_dies="compiled")
    fails(
        cloud,
        run,
        fault="the mount dies while the servers load",
        where="Serve",
        error="ServeNotReady",
        row="mount-died",
    )
    cloud.control("faults", reset=True)
    again = cloud.running.start("mount-anew", {"resume": run.run_id})
    succeeds(cloud, again, fault="the run whose mount died is resumed", where="-")
    assert _looks(again, "Compile") == 1, "the artifacts are there"


def test_a_compile_that_crashes_once_is_done_again_on_a_fresh_pod(cloud):
    cloud.forget("compiled/")
    run = cloud.start("compile-crash")
    cloud.until_step(run, "Compile")
    cloud.until(lambda: cloud.kill("compile"), what="a running compile pod")
    succeeds(cloud, run, fault="the compile pod is killed once", where="Compile")


def test_an_arm_is_killed_under_load(cloud):
    run = cloud.start("arm-killed", LONG)
    cloud.until_step(run, "Benchmark")
    cloud.until(lambda: cloud.kill("serving"), what="a running serving pod")
    fails(
        cloud, run, fault="both arms are killed under load", where="Benchmark", error="BenchmarkFailed", row="arm-died"
    )


def test_an_arm_runs_out_of_memory_under_load(cloud):
    run = cloud.start("arm-oom", LONG)
    cloud.until_step(run, "Benchmark")
    pod = cloud.until(lambda: cloud.pods("serving"), what="a serving pod")[0]["metadata"]["name"]
    cloud.control("kill", namespace=names.NAMESPACE, pod=pod, reason="OOMKilled")
    fails(
        cloud,
        run,
        fault="an arm is killed for memory",
        where="Benchmark",
        error="BenchmarkFailed",
        row="out-of-memory",
    )


def test_the_benchmark_s_pod_is_killed_and_goes_on(cloud):
    run = cloud.start("benchmark-killed", SMALL | {"workload.requests": 30})
    cloud.until_step(run, "Benchmark")
    cloud.until(lambda: cloud.kill("benchmark"), what="a running benchmark pod")
    succeeds(cloud, run, fault="the benchmark's pod is killed", where="Benchmark")


def test_a_run_that_broke_off_while_it_measured_is_resumed(cloud):
    """What it finished is kept: models, artifacts and measured requests. The report is whole."""
    cases = ["repeat-line", "json-records", "count", "library-docs"]
    run = cloud.start("broken-off", SMALL | {"workload.cases": cases, "workload.requests": 40})
    cloud.until_step(run, "Benchmark")
    cloud.until(lambda: len(cloud.records(run)) >= 2, what="the first case's records of both arms")
    cloud.until(lambda: cloud.kill("serving"), what="running serving pods")
    fails(
        cloud,
        run,
        fault="both arms are killed after the first case",
        where="Benchmark",
        error="BenchmarkFailed",
        row="arm-died",
    )
    good = [found for found in cloud.records(run).values() if not any(record.error for record in found)]
    assert 2 <= len(good) < 2 * len(cases)

    again = cloud.running.start("resumed", {"resume": run.run_id})
    succeeds(cloud, again, fault="the same run is resumed", where="-")
    assert (_looks(again, "StageModels"), _looks(again, "Compile")) == (1, 1), "a model or an artifact was made again"
    whole = cloud.records(again)
    for block in good:
        kept = whole[block[0].variant, block[0].case]
        assert [record.started_at for record in kept] == [record.started_at for record in block]
    measured = {key: sum(not record.warmup for record in found) for key, found in whole.items()}
    assert measured == {(variant, case): 40 for variant in ("base", "sd") for case in cases}
    assert not any(record.error for found in whole.values() for record in found)
    report = json.loads(cloud.stored(s3_keys.run_key(again.run_id, "report.json")))
    assert {result["case"] for pair in report["pairs"] for result in pair["cases"]} == set(cases)


def test_the_accuracy_test_is_killed_and_the_benchmark_is_reported(cloud):
    run = cloud.start("accuracy-killed", SMALL | {"accuracy": True})
    cloud.until_step(run, "Accuracy")

    def over() -> bool:
        cloud.kill("accuracy")
        return current_step(run.deployment.events(run.arn))[0] != "Accuracy"

    cloud.until(over, what="the end of the accuracy test")
    succeeds(cloud, run, fault="the accuracy test's pods are killed", where="Accuracy")
    context = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))["context"]
    assert [failure["stage"] for failure in context["failures"]] == ["Accuracy"]
    assert context["accuracy"] == []


def test_the_node_vanishes_under_load(cloud):
    run = cloud.start("node-vanishes", LONG)
    cloud.until_step(run, "Benchmark")
    node = cloud.pods("serving")[0]["spec"]["nodeName"]
    cloud.control("vanish", node=node)
    fails(cloud, run, fault="the node vanishes", where="Benchmark", error="NodeLost", row="node-lost")


@pytest.mark.parametrize(
    ("step", "component", "error"),
    [
        ("StageModels", "staging", "StagingFailed"),
        ("Compile", "compile", "CompileFailed"),
        ("Benchmark", "benchmark", "BenchmarkFailed"),
    ],
)
def test_a_job_is_not_done_in_its_time(cloud, step, component, error):
    """The step ends it, and not the Job controller, which would delete the pod with its log."""
    for prefix in ("models/", "compiled/"):
        cloud.forget(prefix)
    limit = {"staging": "deadlines.staging", "compile": "deadlines.compile", "benchmark": "deadlines.benchmark"}
    run = cloud.start(f"late-{component}", LONG | {limit[component]: 1, "deadlines.serve": 10})
    cloud.until_step(run, step)
    pods = cloud.until(lambda: cloud.freeze(component), what=f"a running {component} pod")
    fails(cloud, run, fault=f"a {component} pod hangs until its deadline", where=step, error=error, row="too-slow")
    logs = cloud.kept(run, "diagnostics", "logs")
    assert any(pod in key for key in logs for pod in pods), "its log is kept"


def test_a_pod_is_evicted_and_another_one_compiles(cloud):
    """Its log is gone with it. The reason stands where the log would."""
    cloud.forget("compiled/")
    run = cloud.start("evicted", SMALL | PATIENT)
    cloud.until_step(run, "Compile")

    def evicted() -> bool:
        for pod in cloud.pods("compile"):
            if pod["status"].get("phase") in {"Pending", "Running"} and pod["spec"].get("nodeName"):
                cloud.control("evict", namespace=names.NAMESPACE, pod=pod["metadata"]["name"])
                return True
        return False

    cloud.until(evicted, what="a compile pod")
    succeeds(cloud, run, fault="a compile pod is evicted, its log lost", where="Compile")
    assert any(text.startswith(b"(no log: ") for text in cloud.kept(run, "diagnostics", "logs").values())


def test_the_node_is_cut_off_under_load(cloud):
    """What the API server knows is stored at once, and nobody waits for a kubelet that does not answer."""
    run = cloud.start("node-cut", LONG)
    cloud.until_step(run, "Benchmark")
    node = cloud.pods("serving")[0]["spec"]["nodeName"]
    began = time.monotonic()
    cloud.control("cut", node=node)
    cloud.until(lambda: cloud.kept(run, "diagnostics"), what="the diagnosis")
    took = time.monotonic() - began
    cloud.until(lambda: current_step(run.deployment.events(run.arn))[0] != "Diagnose", what="the end of Diagnose")
    assert time.monotonic() - began < took + 30, "it asked the node's kubelet"
    assert not cloud.kept(run, "diagnostics", "logs")
    cloud.control("vanish", node=node)
    fails(
        cloud,
        run,
        fault="nothing reaches the node any more, and then it is gone",
        where="Benchmark",
        error="BenchmarkFailed",
        row="node-lost",
    )


def test_a_claim_template_is_missing(cloud):
    """The pod has an event and no condition: the scheduler does not look at it."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{names.NAMESPACE}/resourceclaimtemplates"
    templates = cloud.listed(path)
    for template in templates:
        cloud.running.kubernetes.request("DELETE", f"{path}/{template['metadata']['name']}")
    cloud.forget("compiled/")
    try:
        run = cloud.start("no-template", SMALL | PATIENT)
        fails(
            cloud,
            run,
            fault="a ResourceClaimTemplate is missing",
            where="Compile",
            error="CompileFailed",
            row="claim-template-missing",
        )
    finally:
        for template in templates:
            kept = {key: template["metadata"][key] for key in ("name", "namespace")}
            body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **template, "metadata": kept}
            cloud.running.kubernetes.request("POST", path, body)


@pytest.mark.one_node("no node is concerned")
def test_a_limit_range_makes_pods_invalid(cloud):
    path = f"/api/v1/namespaces/{names.NAMESPACE}/limitranges"
    spec = {"limits": [{"type": "Container", "default": {"cpu": "100m"}}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "of-somebody-else"}, "spec": spec}
    cloud.running.kubernetes.request("POST", path, body)
    cloud.forget("models/")
    try:
        run = cloud.start("limit-range", SMALL | PATIENT)
        fails(
            cloud,
            run,
            fault="a limit range of somebody else's makes pods invalid",
            where="StageModels",
            error="StagingFailed",
            row="pod-refused",
        )
    finally:
        cloud.running.kubernetes.request("DELETE", f"{path}/of-somebody-else")


@pytest.mark.one_node("no node is concerned")
def test_an_object_is_not_of_the_cluster_s_schema(cloud):
    """Answered with 500, as a server-side apply is. Once: were it tried again, it would go well."""
    cloud.forget("models/")
    told = (
        f"failed to create typed patch object ({names.NAMESPACE}/x; batch/v1, Kind=Job): "
        ".spec.podFailurePolicy: field not declared in schema"
    )
    path = f"/apis/batch/v1/namespaces/{names.NAMESPACE}/jobs/"
    cloud.control("faults", api=[{"code": 500, "count": 1, "path": path, "message": told, "method": "PATCH"}])
    run = cloud.start("other-schema", SMALL | PATIENT)
    fails(
        cloud,
        run,
        fault="the cluster does not know a field of a Job",
        where="StageModels",
        error="InvalidManifest",
        row="manifest-refused",
    )


def test_a_function_is_killed_midway(cloud):
    run = cloud.start("function-killed")
    cloud.until_step(run, "Serve")
    _kill_function(cloud, "Serve", times=3)
    succeeds(cloud, run, fault="the Serve function is killed three times midway", where="Serve")


def test_the_advisor_is_killed_midway(cloud):
    run = _sweep(cloud, "advisor-killed")
    cloud.until_step(run, "Advise")
    _kill_function(cloud, "Advise", times=2)
    succeeds(cloud, run, fault="the Advise function is killed twice midway", where="Advise")
    steps = run.deployment.plan(run.run_id).sweep.steps
    assert steps[-1].arm is None
    assert len(steps) >= 2, "it goes on as if nothing had happened"


def test_the_advisor_cannot_store_its_plan(cloud):
    run = _sweep(cloud, "advisor-denied")
    cloud.until_step(run, "Benchmark")
    with cloud.denied("s3:PutObject", s3_keys.run_key(run.run_id, "plan.json")):
        end = cloud.ended(run)
    assert end.status == "FAILED"
    assert cloud.diagnosis(run)["row"] == "s3-denied"
    assert run.deployment.state(run.run_id).measured, "what was measured before is kept"
    cloud.at_rest()
    cloud.note("the Advise function fails every time", "Advise", run, cause=cloud.diagnosis(run)["cause"])


def test_a_sweep_goes_on_without_an_arm_that_does_not_compile(cloud):
    cloud.forget("compiled/")
    run = _sweep(cloud, "arm-lost")
    cloud.until_step(run, "Compile")
    lost = run.deployment.plan(run.run_id).sweep.arms[0]

    def given_up() -> bool:
        cloud.kill("compile", variant=lost)
        return bool(run.deployment.state(run.run_id).lost)

    cloud.until(given_up, what=f"the loss of {lost}")
    succeeds(cloud, run, fault="an arm of an adaptive sweep never compiles", where="Compile")
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    (failure,) = report["context"]["failures"]
    assert (failure["stage"], failure["variant"]) == ("CompileFailed", lost)
    assert cloud.stored(s3_keys.run_key(run.run_id, "diagnostics", lost, "diagnosis.json"))
    assert [pair["variant"] for pair in report["pairs"] if pair["cases"]] == [f"sd-k{6 - int(lost[-1])}"]


def test_cloudwatch_throttles_and_what_waits_is_sent_once_by_the_resumed_run(cloud):
    with cloud.throttled_cloudwatch():
        run = cloud.start("throttled", SMALL | PATIENT | {"workload.requests": 4})
        succeeds(cloud, run, fault="CloudWatch throttles all the time", where="Report")
    assert any("Throttling" in problem for problem in json.loads(run.look().output)["unpublished"])
    assert cloud.metric_samples(run, "TTFT") == 0
    for number in range(2):
        again = cloud.running.start(f"resumed-{number}", {"resume": run.run_id})
        assert cloud.ended(again).status == "SUCCEEDED"
        assert cloud.metric_samples(run, "TTFT") == 2 * 4, "each arm's requests, once"
    cloud.note("the same run is resumed; its metrics are sent, once", "Report", again, cause="-")


def test_the_bucket_denies_the_functions(cloud):
    run = cloud.start("s3-denied", LONG)
    cloud.until_step(run, "Benchmark")
    with cloud.denied("s3:GetObject", s3_keys.run_key(run.run_id, "plan.json")):
        end = cloud.ended(run)
    assert (end.status, end.error) in {("FAILED", "AccessDenied"), ("FAILED", "ClientError")}
    assert cloud.diagnosis(run)["row"] == "s3-denied"
    cloud.at_rest()
    cloud.note("S3 denies a function", "Benchmark", run, cause=cloud.diagnosis(run)["cause"])


@pytest.mark.one_node("no node is concerned")
def test_servers_that_already_run(cloud, tmp_path):
    """Two engines of nobody's run, one behind a key: no node, the same report; the key stays where it is."""
    with elsewhere.servers(cloud.running) as document:
        run = cloud.running.start("elsewhere", {"experiment": document})
        succeeds(cloud, run, fault="none: servers that already run", where="-")
    assert elsewhere.states(run) == [
        "Plan", "TakeTurn", "Smoke", "Benchmark", "StopArms", "ReleaseCapacity", "Report", "Succeeded"
    ]  # fmt: skip
    state = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "state.json")))
    assert (state["held_since"], state["node"], state["measured"]) == (None, None, [0])
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    arms = {arm["variant"]: arm for arm in report["arms"]}
    assert all(arm["completed"] == 4 for arm in arms.values())
    assert arms["sd"]["acceptance_source"] == "engine counters"
    assert arms["sd"]["cost_per_million"] > 0 and arms["base"]["cost_per_million"] is None
    assert any("servers that already ran" in note for note in report["notes"])
    kept = [path for path in cloud.running.download(run.run_id, to=tmp_path).rglob("*") if path.is_file()]
    assert len(kept) > 8 and not [path for path in kept if elsewhere.KEY.encode() in path.read_bytes()]


@pytest.mark.one_node("no node is concerned")
def test_the_key_of_a_server_that_already_runs_is_missing(cloud):
    document = elsewhere.experiment("http://127.0.0.1:9", "http://127.0.0.1:9/other")
    document["variants"][0]["api_key_secret"] = "endpoint-nobody"
    run = cloud.running.start("no-key", {"experiment": document})
    fails(
        cloud,
        run,
        fault="the Secret with a server's key is missing",
        where="Smoke",
        error="SmokeFailed",
        row="api-key-missing",
    )


@pytest.mark.one_node("no node is concerned")
def test_an_invalid_experiment(cloud):
    run = cloud.running.start("invalid", {"experiment": "nonsense"})
    fails(
        cloud,
        run,
        fault="an experiment that does not exist",
        where="Plan",
        error="InvalidExperiment",
        row="invalid-experiment",
    )


def test_a_person_stops_a_run_that_holds_the_node(cloud):
    """StopExecution and nothing else: the watchdog, by its event rule, does all the rest."""
    run = cloud.start("stopped", LONG)
    cloud.until_step(run, "Benchmark")
    run.deployment.stop(run.arn)
    assert cloud.ended(run).status == "ABORTED"
    cloud.at_rest()
    cloud.note("a person stops the run; the watchdog alone cleans up", "Benchmark", run, cause="stopped by a person")


def test_a_person_stops_a_run_with_the_command_line(cloud):
    """As a user does it, in a process of its own: it ends the run, waits until all is released, and says so."""
    run = cloud.start("stop-command", LONG | PATIENT)
    cloud.until_step(run, "Benchmark")
    shown = json.loads(cloud.command("status", run.run_id, "--json"))
    assert {(pod["variant"], pod["ready"]) for pod in shown["pods"] if pod["component"] == "serving"} == {
        ("base", True),
        ("sd", True),
    }
    said = cloud.command("stop", run.run_id)
    assert f"stopped {run.run_id}" in said
    assert f"released; the node pools have {cloud.others} replicas" in said
    assert (cloud.workloads(), cloud.running.replicas(), len(cloud.lease().claims)) == ([], cloud.others, cloud.others)
    assert cloud.ended(run).status == "ABORTED"
    assert "has already ended: ABORTED" in cloud.command("stop", run.run_id)
    cloud.at_rest()
    cloud.note("`specdecode stop` while it measures", "Benchmark", run, cause="stopped by a person")


def test_three_runs_one_stopped_while_waiting_one_while_holding(cloud):
    cloud.forget("compiled/")
    first = cloud.start("first", LONG)
    cloud.until_step(first, "Benchmark")
    second, third = cloud.start("second"), cloud.start("third")
    cloud.until(lambda: len(cloud.lease().queue) == 2, what="two waiting runs")
    waiting = {claim.run_id for claim in cloud.lease().queue}
    assert waiting == {second.run_id, third.run_id}
    second.deployment.stop(second.arn)
    cloud.until(lambda: len(cloud.lease().queue) == 1, what="the stopped run's leaving the queue")
    first.deployment.stop(first.arn)
    end = cloud.ended(third)
    assert end.status == "SUCCEEDED", end.cause
    cloud.at_rest()
    assert _looks(third, "Compile") == 1, "the third run compiles what the first had compiled"
    for run, what in ((second, "stopped while waiting"), (first, "stopped while holding"), (third, "goes on")):
        cloud.note(f"three runs queued: {what}", "queue", run, cause="-")


def _held_for_ever(since: str | None) -> bytes:
    """A lease that reads well and cannot be true."""
    claim = {"run_id": "somebody", "execution_arn": "arn", "queued_at": "2026-01-01T00:00:00Z", "held_since": since}
    return json.dumps({"holder": claim}).encode()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x00 no JSON", "garbage"),
        (b"", "empty"),
        (b'{"holder": 7, "queue": {"a": []}}', "of wrong types"),
        (b'{"holder": null}' + b" " * (5 << 20), "huge (5 MiB)"),
        (_held_for_ever("2096-01-01T00:00:00Z"), "of a time to come"),
        (_held_for_ever(None), "of no time at all"),
    ],
)
def test_the_lease_is_damaged_while_a_run_measures(cloud, data, what):
    """The run ends at its next look, the node goes, the document is kept aside, and the queue begins anew by itself."""
    run = cloud.start(f"lease-{what.partition(' (')[0].replace(' ', '-')}", LONG)
    cloud.until_step(run, "Benchmark")
    broken.stored(cloud, s3_keys.CAPACITY_KEY, data)
    end = cloud.ended(run)
    assert (end.status, end.error) == ("FAILED", "LeaseDamaged"), end.cause
    cloud.all_end("LeaseDamaged")
    cloud.until(lambda: cloud.running.replicas() == 0, seconds=120, what="0 replicas")
    cloud.until(lambda: cloud.stored(s3_keys.CAPACITY_KEY) != data, seconds=60, what="a new queue")
    cloud.at_rest()
    listed = cloud.running.services.client("s3").list_objects_v2(Bucket=cloud.running.bucket, Prefix=s3_keys.DAMAGED)
    assert data in [cloud.stored(item["Key"]) for item in listed["Contents"]]
    assert cloud.diagnosis(run)["row"] == "stored-damaged"
    cloud.note(f"`capacity.json` is {what}", "Benchmark", run, cause=cloud.diagnosis(run)["cause"])


def test_a_run_on_a_node_needs_no_queue_of_other_servers(cloud):
    broken.stored(cloud, s3_keys.ENDPOINTS_KEY, b"[")
    run = cloud.start("endpoints-damaged", SMALL | PATIENT)
    succeeds(cloud, run, fault="`endpoints.json` is damaged", where="ReleaseCapacity")
    cloud.until(lambda: run.deployment.reconcile()["problems"] == [], what="a new queue of other servers")


def test_what_a_newer_version_stored_is_read_after_a_rollback(cloud):
    run = cloud.start("rolled-back", SMALL | PATIENT)
    cloud.until_step(run, "Serve")
    for key in (s3_keys.CAPACITY_KEY, s3_keys.run_key(run.run_id, "state.json")):
        broken.stored(cloud, key, json.dumps(json.loads(cloud.stored(key)) | {"of_the_next_version": 1}).encode())
    succeeds(cloud, run, fault="documents have fields of a newer version", where="Serve")


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("state.json", b"", "empty"),
        ("state.json", b" " * (9 << 20), "huge (9 MiB)"),
        ("plan.json", b'{"experiment": []}', "of wrong types"),
    ],
)
def test_the_run_s_record_is_damaged(cloud, name, data, what):
    run = cloud.start(f"{name[:-5]}-damaged", LONG)
    cloud.until_step(run, "Benchmark")
    broken.stored(cloud, s3_keys.run_key(run.run_id, name), data)
    fails(
        cloud,
        run,
        fault=f"the run's `{name}` is {what}",
        where="Benchmark",
        error="StateDamaged",
        row="stored-damaged",
    )


def test_the_bucket_denies_everything_and_goes_on_denying(cloud):
    """The denial is not lifted for the clean-up: the node goes back all the same."""
    run = cloud.start("s3-gone", LONG)
    cloud.until_step(run, "Benchmark")
    with cloud.denied(["s3:GetObject", "s3:PutObject"], "*"):
        end = cloud.ended(run)
        assert end.status == "FAILED"
        cloud.all_end("AccessDenied", "ClientError")
        cloud.until(lambda: cloud.running.replicas() == 0, seconds=120, what="0 replicas")
        cloud.until(lambda: not cloud.workloads(), seconds=120, what="the end of all workloads")
        cloud.until(lambda: not broken.instances(cloud), seconds=60, what="the end of the instance")
        assert run.deployment.reconcile()["replicas"] == 0
    run.deployment.reconcile()
    cloud.at_rest()
    cloud.note("S3 denies everything, also the clean-up", "Benchmark", run, cause="AccessDenied")


def test_stop_gives_the_node_back_though_nothing_stored_can_be_read(cloud):
    run = cloud.start("stop-blind", LONG)
    cloud.until_step(run, "Benchmark")
    broken.stored(cloud, s3_keys.CAPACITY_KEY, b"{")
    broken.stored(cloud, s3_keys.ENDPOINTS_KEY, b"{")
    broken.stored(cloud, s3_keys.run_key(run.run_id, "state.json"), b"{")
    said = cloud.command("stop", run.run_id)
    assert "released; the node pools have 0 replicas" in said
    cloud.all_end("LeaseDamaged")
    assert (cloud.workloads(), cloud.running.replicas()) == ([], 0)
    assert "holder    nobody" in cloud.command("capacity", "--release")
    cloud.at_rest()
    cloud.note("`specdecode stop` with every document damaged", "Benchmark", run, cause="stopped by a person")


@pytest.mark.one_node("every execution is dead")
def test_the_backstop_ends_what_nobody_watches_over(cloud):
    """Watchdog, Kubernetes API and bucket are broken together, and the run's execution is dead; Karpenter is alive."""
    watchdog, backstop = broken.physical(cloud, "PipelineWatchdogFunction"), broken.physical(cloud, "BackstopFunction")
    run = cloud.start("nobody-watches", LONG)
    cloud.until_step(run, "Benchmark")
    held = broken.instances(cloud)
    assert len(held) == 1
    with broken.mailbox(cloud) as mail, broken.changed(cloud, backstop, variables=broken.AT_ONCE):
        run.deployment.reconcile()
        assert broken.invoke(cloud, backstop)["ended"] == [], "a healthy run is never touched"
        with (
            broken.changed(cloud, watchdog, handler="specdecode.steps.gone.handler"),
            broken.cluster_away(cloud),
            cloud.denied(["s3:GetObject", "s3:PutObject"], "*"),
        ):
            cloud.until(
                lambda: "has not worked" in str(broken.invoke(cloud, backstop)["why"]) or run.deployment.stop(run.arn),
                what="a backstop that sees that nobody watches and nothing runs",
            )
            cloud.until(lambda: not broken.instances(cloud), seconds=60, what="the end of the instance")
            time.sleep(10)
            assert not broken.instances(cloud), "Karpenter, which still has to keep one replica, must not replace it"
        cloud.until(lambda: run.deployment.reconcile()["replicas"] == 0, what="a watchdog that works again")
        assert broken.invoke(cloud, backstop)["closed"] == ["trn2"]
        assert broken.invoke(cloud, backstop)["closed"] == [], "opened again"
    assert any("has ended an instance" in text and held.copy().pop() in text for text in mail)
    cloud.at_rest()
    cloud.note(
        "watchdog, Kubernetes API, bucket and execution are dead together",
        "Benchmark",
        run,
        cause="ended by the backstop",
    )
    again = cloud.start("after-the-backstop", SMALL | PATIENT)
    assert cloud.ended(again).status == "SUCCEEDED", "a node can be launched again"


def _sweep(cloud: Cloud, name: str) -> Run:
    """An adaptive sweep of two arms."""
    preset = load_preset("rehearsal-sweep").model_dump(mode="json")
    kept = [item for item in preset["variants"] if item["name"] in {"base", "sd-k2", "sd-k4"}]
    return cloud.running.start(name, {"experiment": preset | {"variants": kept}, "set": SMALL | PATIENT})


def _kill_function(cloud: Cloud, step: str, *, times: int) -> None:
    """Kill processes of the step's function until `times` of them are dead."""
    killed: set[int] = set()

    def kill() -> bool:
        for pid in processes_naming(cloud.running.processes.folder):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if f"-Pipeline{step}Function".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
        return len(killed) >= times

    cloud.until(kill, what=f"{times} processes of the {step} function")


def _looks(run: Run, step: str) -> int:
    """How often the state was entered."""
    events = run.deployment.events(run.arn, newest=1000)
    return sum(event.get("stateEnteredEventDetails", {}).get("name") == step for event in events)
