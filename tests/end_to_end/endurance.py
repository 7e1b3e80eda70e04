"""Load and endurance: a hundred runs, a thousand cases, millions of chunks, thousands of objects; writes
docs/reliability.md.

Not part of `make test` (it takes twenty minutes on two calm cores). Run it, or a part of it with `-k`, with

    .venv/bin/pytest tests/end_to_end/endurance.py

What must hold is asserted; what was measured becomes a row of the table. Smaller versions of each property are in
`make test`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from specdecode import names, s3_keys
from specdecode.analysis import RunContext, compare
from specdecode.analysis.datums import metric_data
from specdecode.analysis.report import render_csv, render_html, render_markdown
from specdecode.experiment import Experiment, from_document, load_preset
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.kubernetes.client import Kubernetes, https_transport
from specdecode.kubernetes.evidence import collect_logs, collect_status
from specdecode.kubernetes.teardown import delete_workloads, run_selector
from specdecode.manifests.benchmarking import benchmark
from specdecode.manifests.context import RenderContext
from specdecode.planning import Inventory, make_plan
from specdecode.records import read_record
from specdecode.runs.lease_store import LeaseStore
from specdecode.runs.store import Store

from rehearsal import services, tools
from rehearsal.rehearse import Rehearsal
from tests.end_to_end.cloud import looks, quiet_rehearsal
from tests.specdecode.runs.crowd import StrictS3, check, gather

pytestmark = pytest.mark.timeout(1800)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- written by tests/end_to_end/endurance.py -->", "<!-- end of load and endurance -->"
HEAD = ["| thrown at it | measured | held |", "|---|---|---|"]
EXECUTIONS = 25
"""Each is a few processes at a time on this machine; a hundred in the queue are in tests/specdecode/steps."""
WAIT_SCALE = 0.1
"""A queued run looks every 30 s."""
OBJECTS = 5000
MIB = 2**20
Note = Callable[[str, str, str], None]


@pytest.fixture(scope="module")
def note() -> Iterator[Note]:
    """Takes a row: what was thrown at it, what was measured, what held. Rows of parts that did not run now stay."""
    rows: list[tuple[str, str, str]] = []
    yield lambda *row: rows.append(row)
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    kept = [tuple(line.strip("| ").split(" | ")) for line in table.splitlines() if line.startswith("| ")][1:]
    fresh = {row[0] for row in rows}
    lines = [f"| {' | '.join(row)} |" for row in [*(row for row in kept if row[0] not in fresh), *rows]]
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join([*HEAD, *lines]) + f"\n\n{END}{after}", "utf-8")


@pytest.fixture(scope="module")
def cloud() -> Iterator[Rehearsal]:
    """Both servers; nothing deployed."""
    services.WAIT_SCALE = WAIT_SCALE
    with quiet_rehearsal() as running:
        yield running


@pytest.fixture(scope="module")
def bucket(cloud: Rehearsal) -> Store:
    """An empty bucket of the embedded S3, with a client that many threads can use."""
    client = boto3.client(
        "s3",
        endpoint_url=cloud.services.endpoint,
        region_name=tools.REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(
            proxies={}, retries={"max_attempts": 2}, s3={"addressing_style": "path"}, max_pool_connections=100
        ),
    )
    client.create_bucket(Bucket="endurance", CreateBucketConfiguration={"LocationConstraint": tools.REGION})
    return Store(s3=client, bucket="endurance")


@pytest.fixture(scope="module")
def kube(cloud: Rehearsal) -> Kubernetes:
    """The product's client at the double, as its administrator."""
    given = cloud.services
    transport = https_transport(endpoint=given.kubernetes_url, ca_pem=given.kubernetes_ca.read_text())
    return Kubernetes(transport, token=lambda renew: given.kubernetes_token)


def spread(seconds: list[float]) -> str:
    """`p50 1.2 ms, p99 3.4 s`."""
    found = sorted(seconds)
    chosen = {q: found[min(len(found) - 1, len(found) * q // 100)] for q in (50, 99)}
    return ", ".join(f"p{q} {s:.1f} s" if s > 1 else f"p{q} {s * 1000:.1f} ms" for q, s in chosen.items())


def timed(call: Callable[[], Any], times: int) -> list[float]:
    took = []
    for _ in range(times):
        begun = time.monotonic()
        call()
        took.append(time.monotonic() - begun)
    return took


def rss_mib(pid: int | str) -> float:
    """Resident memory of a process now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def alone(function: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """What `function` answers in a process of its own, and under `peak_mib` that process' largest memory."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_answer, args=(theirs, function, given))
    child.start()
    answer = ours.recv()
    child.join()
    return dict(answer)


def _answer(pipe: Any, function: Callable[..., dict[str, Any]], given: tuple[Any, ...]) -> None:
    answer = function(*given)
    pipe.send(answer | {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024})


def test_a_hundred_runs_contend_for_the_lease(bucket: Store, note: Note) -> None:
    crowd = gather(
        bucket.s3,
        bucket=bucket.bucket,
        runs=100,
        stopped=60,
    )
    check(crowd, runs=100)
    assert crowd.largest < 64 * 1024
    note(
        "100 runs ask for the node at the same moment, 60 of them are stopped while they wait (embedded S3)",
        f"{crowd.calls_to_join / 100:.1f} S3 calls to join, {spread(crowd.joined)}; {crowd.gave_up} updates lost every "
        f"race and were tried again; the document is {crowd.largest / 1024:.0f} KiB with all in it",
        "never two holders; first come, first served; every write one step of the one before; nobody lost, nobody left",
    )


def test_a_hundred_runs_contend_at_the_latency_of_a_far_bucket(note: Note) -> None:
    crowd = gather(StrictS3(latency_s=0.04), bucket="b", runs=100, stopped=90)
    check(crowd, runs=100)
    note(
        "100 runs ask for the node at the same moment, 90 of them are stopped (a store that takes 40 ms an answer)",
        f"{crowd.calls_to_join / 100:.1f} calls to join, {spread(crowd.joined)}; {crowd.gave_up} updates lost every "
        "race and were tried again",
        "the same",
    )


def test_a_bucket_of_a_thousand_runs(bucket: Store, note: Note) -> None:
    state = json.dumps({"run_id": "r", "execution_arn": "a", "experiment": "e", "started_at": "2026-01-01T00:00:00Z"})

    def put(number: int) -> None:
        run_id = f"e-{20250101 + number}-120000-abcd"
        for name in ("state.json", "plan.json", "raw/base/a.jsonl"):
            bucket.write(s3_keys.run_key(run_id, name), state)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(1000)))
    bucket.write("runs/wide/state.json", state)
    for number in range(1200):
        bucket.write(f"runs/wide/raw/base/{number}.jsonl", "")
    begun = time.monotonic()
    assert len(bucket.folders("runs/")) == 1001
    folders = time.monotonic() - begun
    assert len(bucket.keys("runs/wide/")) == 1201
    reads = timed(lambda: bucket.read("runs/wide/state.json"), 50)
    note(
        "a bucket with 1,000 runs, one of them of 1,201 files",
        f"its folders in {folders:.1f} s, a state {spread(reads)}",
        "listings go over pages; a report looks at the 500 newest states for the run before it, however many there are",
    )


def _foreign(cloud: Rehearsal, kind: str, number: int) -> None:
    """An object of somebody else's: an event, a pod's worth of labels, or one in our namespace."""
    metadata = {"name": f"foreign-{number}", "namespace": "default", "labels": {"app": f"a{number % 50}"}}
    if kind == "events":
        about = {"kind": "Pod", "name": f"p{number}", "namespace": "default"}
        body = {"involvedObject": about, "type": "Warning", "reason": "BackOff", "message": "x" * 200}
        path, typed = "/api/v1/namespaces/default/events", {"apiVersion": "v1", "kind": "Event"}
    else:
        body, typed = {"data": {"key": "x" * 200}}, {"apiVersion": "v1", "kind": "ConfigMap"}
        path = "/api/v1/namespaces/default/configmaps"
    cloud.kubernetes.request("POST", path, {**typed, "metadata": metadata, **body})


def test_a_cluster_of_five_thousand_objects(cloud: Rehearsal, kube: Kubernetes, note: Note) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.NAMESPACE}}
    cloud.kubernetes.request("POST", "/api/v1/namespaces", namespace)
    double = cloud.services.children[0].process.pid
    before = rss_mib(double)
    begun = time.monotonic()
    for number in range(OBJECTS):
        _foreign(cloud, "events" if number % 5 else "configmaps", number)
    made = time.monotonic() - begun
    grown = rss_mib(double) - before

    metadata = {"name": "ours", "namespace": names.NAMESPACE, "labels": {names.RUN_LABEL: "run"}}
    ours = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
    kube.apply(ours)
    get = timed(lambda: kube.get("ConfigMap", "ours", namespace=names.NAMESPACE), 200)
    apply = timed(lambda: kube.apply({**ours, "data": {"a": str(random.random())}}), 100)
    selected = timed(lambda: kube.list("ConfigMap", selector=f"{names.RUN_LABEL}=run"), 50)
    assert len(kube.list("ConfigMap", selector=f"{names.RUN_LABEL}=run")) == 1
    whole = timed(lambda: kube.list("Event"), 3)
    assert len({event["metadata"]["name"] for event in kube.list("Event")}) >= OBJECTS * 4 // 5
    note(
        f"{OBJECTS:,} objects of others in the Kubernetes double, the pipeline's client",
        f"get {spread(get)}; apply {spread(apply)}; list by label {spread(selected)}; all {OBJECTS * 4 // 5:,} "
        f"events in pages of 250: {max(whole):.1f} s; {OBJECTS / made:.0f} creates/s; it grew by {grown:.0f} MiB",
        "every page is of the moment of the first; a list that expires on the way (410) is read again whole",
    )

    read: list[int] = []
    transport = kube._transport
    kube._transport = lambda *asked: read.append(len((answer := transport(*asked)).data)) or answer
    try:
        begun = time.monotonic()
        found = collect_status(kube, selector=run_selector("run"))
        collect_logs(kube, found)
        diagnosed, bytes_read = time.monotonic() - begun, sum(read)
        begun = time.monotonic()
        while delete_workloads(kube, selector=run_selector("run")):
            time.sleep(0.05)
        torn_down = time.monotonic() - begun
    finally:
        kube._transport = transport
    assert found.missing == [] or all("nodeclaim" in line.lower() for line in found.missing), found.missing
    assert bytes_read < MIB, "the diagnosis read what is not ours"
    assert kube.get("ConfigMap", "ours", namespace=names.NAMESPACE) is None
    note(
        f"diagnosis and teardown of a run among {OBJECTS:,} objects of others",
        f"diagnosis {diagnosed:.2f} s, {bytes_read / 1024:.0f} KiB read; teardown {torn_down:.2f} s",
        "only what is the run's is read and deleted: labels and the events' kinds are chosen by the API server",
    )


def test_watches_that_are_closed_under_churn(cloud: Rehearsal, note: Note) -> None:
    """kubectl's and controllers' way, which the pipeline does not use: it polls."""
    root = "/api/v1/namespaces/default/configmaps"
    listed = cloud.kubernetes.request("GET", root)
    known = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
    version, lags, reconnects, done = listed["metadata"]["resourceVersion"], list[float](), 0, threading.Event()

    def churn() -> None:
        rng = random.Random(1)
        for number in range(2000):
            name = f"churn-{rng.randrange(50)}"
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}
            body["data"]["at"] = repr(time.time())
            path = f"{root}/{name}?fieldManager=churn&force=true"
            if number % 7 == 6:
                with_errors(lambda name=name: cloud.kubernetes.request("DELETE", f"{root}/{name}"))
            else:
                apply(path, body)
        done.set()

    given = cloud.services
    transport = https_transport(endpoint=given.kubernetes_url, ca_pem=given.kubernetes_ca.read_text())
    headers = {"Authorization": f"Bearer {given.kubernetes_token}"}

    def apply(path: str, body: dict[str, Any]) -> None:
        kind = {"Content-Type": "application/apply-patch+yaml"}
        assert transport("PATCH", path, headers | kind, json.dumps(body).encode()).status < 300

    def with_errors(call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:
            assert "404" in str(error) or "not found" in str(error).lower(), error

    writer = threading.Thread(target=churn)
    writer.start()
    while not done.is_set() or reconnects == 0:
        query = f"{root}?watch=true&resourceVersion={version}&timeoutSeconds=1"
        answer = transport("GET", query, headers, None)
        reconnects += 1
        for line in answer.data.splitlines():
            event = json.loads(line)
            meta = event["object"]["metadata"]
            assert event["type"] != "ERROR", event
            assert int(meta["resourceVersion"]) > int(version), "an event came twice"
            assert (meta["name"] in known) == (event["type"] != "ADDED"), "an event was lost"
            known.pop(meta["name"], None)
            if event["type"] != "DELETED":
                known[meta["name"]] = meta["resourceVersion"]
            version = meta["resourceVersion"]
    writer.join()
    answer = transport("GET", f"{root}?watch=true&resourceVersion={version}&timeoutSeconds=1", headers, None)
    for line in answer.data.splitlines():
        event = json.loads(line)
        known.pop(event["object"]["metadata"]["name"], None)
        if event["type"] != "DELETED":
            known[event["object"]["metadata"]["name"]] = event["object"]["metadata"]["resourceVersion"]
    now = cloud.kubernetes.request("GET", root)["items"]
    assert known == {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in now}
    assert lags == []
    note(
        "2,000 changes while the server closes the watch every second",
        f"{reconnects} reconnections",
        "no event lost, none repeated; a version too old is answered with 410 and listed again (model, in `make test`)",
    )


def _thousand_cases(cases: int, text: str = "word " * 8) -> Experiment:
    document = load_preset("qwen3-32b").model_dump(mode="json")
    document["workload"]["cases"] = [
        {"name": f"case-{n}", "label": f"case_{n}", "kind": "text", "text": f"{n} {text}", "structured": n % 2 == 0}
        for n in range(cases)
    ]
    return from_document(document)


def _plan(cases: int) -> dict[str, Any]:
    begun = time.monotonic()
    experiment = _thousand_cases(cases)
    plan = make_plan(experiment, inventory=Inventory())
    took = time.monotonic() - begun
    context = RenderContext(run_id="r", bucket="b", bundle_uri="s3://b/k", bundle_sha256="0" * 64, region="us-east-2")
    config = benchmark(plan, plan.waves[0], context)[0]
    request = json.dumps({"experiment": experiment.model_dump(mode="json")}, separators=(",", ":"))
    return {
        "seconds": took,
        "input": len(request),
        "config": len(config["data"]["spec.json"]),
        "events": plan.worst_case_events,
        "warned": [text for text in plan.warnings if "deadlines.benchmark" in text],
    }


def test_a_plan_of_a_thousand_cases(note: Note) -> None:
    found = alone(_plan, 1000)
    assert found["input"] < 256 * 1024 and found["config"] < MIB and found["events"] < 20_000 and found["warned"]
    note(
        "an experiment of 1,000 cases",
        f"planned in {found['seconds']:.2f} s; {found['input'] / 1024:.0f} KiB as input of the execution, "
        f"{found['config'] / 1024:.0f} KiB as ConfigMap; at most {found['events']:,} history events",
        "within 256 KiB, 1 MiB and 20,000; the plan warns that the load outlasts its deadline; a larger input is "
        "refused by `specdecode run`",
    )


def _write_raw(folder: Path, experiment: Experiment, requests: int, chunks: int) -> tuple[int, int]:
    """Records of every arm and case; bytes and chunks written."""
    rng, size, count = random.Random(1), 0, 0
    for case in experiment.workload.cases:
        for variant in experiment.variants:
            per_chunk = 3 if variant.speculation else 1
            path = folder / variant.name / f"{case.name}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w") as file:
                for index in range(requests):
                    at, steps = 0.1, chunks // per_chunk
                    texts = []
                    for _ in range(steps):
                        at += 0.03 * (0.9 + 0.2 * rng.random())
                        texts.append(f'{{"at_s":{at:.9f},"chars":5,"tokens":{per_chunk},"reasoning_chars":0}}')
                    count += steps
                    record = {
                        **{"run_id": "r", "variant": variant.name, "case": case.name, "index": index},
                        **{"started_at": 1.8e9, "sent_s": 10.0 * index, "end_s": at, "chunks": []},
                        **{"requested_input_tokens": 9, "requested_output_tokens": chunks, "prompt_tokens": 9},
                        **{"completion_tokens": steps * per_chunk, "prompt_sha256": f"{index:064d}"},
                        **{"output": "word " * steps * per_chunk, "finish_reason": "length"},
                    }
                    file.write(json.dumps(record).replace('"chunks": []', f'"chunks": [{",".join(texts)}]') + "\n")
            size += path.stat().st_size
    return size, count


def _report(folder: str, cases: int) -> dict[str, Any]:
    experiment = _thousand_cases(cases)
    begun = time.monotonic()
    records = [
        read_record(line) for path in sorted(Path(folder).rglob("*.jsonl")) for line in path.read_bytes().splitlines()
    ]
    read = time.monotonic() - begun
    at = datetime.now(UTC)
    context = RunContext(run_id="r", started_at=at, finished_at=at, price_per_node_hour=35.0, node_seconds=36e3)
    begun = time.monotonic()
    comparison = compare(experiment=experiment, records=records, context=context)
    answer: dict[str, Any] = {"read": read, "compare": time.monotonic() - begun, "datums": len(metric_data(comparison))}
    for name, render in (("html", render_html), ("md", render_markdown), ("csv", render_csv)):
        begun = time.monotonic()
        answer[name] = (len(render(comparison).encode()), time.monotonic() - begun)
    return answer


def test_a_report_of_a_thousand_cases(tmp_path: Path, note: Note) -> None:
    size, chunks = _write_raw(tmp_path, _thousand_cases(1000), requests=16, chunks=90)
    found = alone(_report, str(tmp_path), 1000)
    assert found["peak_mib"] < 2048, "the report's function has 2 GiB"
    files = ", ".join(
        f"{kind.upper()} {found[kind][0] / MIB:.1f} MiB in {found[kind][1]:.0f} s" for kind in ("html", "md", "csv")
    )
    note(
        f"the report of 1,000 cases, 16 requests, two arms ({chunks / 1e6:.1f} M chunks, {size / MIB:.0f} MiB)",
        f"read in {found['read']:.0f} s, compared in {found['compare']:.0f} s; {files}; {found['datums']:,} metric "
        f"data; {found['peak_mib']:.0f} MiB at most",
        "within the function's 2 GiB and 5 minutes; nothing grows with the square of the cases",
    )


def _load(folder: Path, *, requests: int, chunks: int, note_rss: list[tuple[int, float]]) -> float:
    """One block of streams against the fast server; notes (bytes recorded, resident MiB) now and then. CPU seconds."""
    case = {"name": "c", "label": "c", "kind": "text", "text": "hi", "structured": True}
    load = {"cases": [case], "input_tokens": 9, "output_tokens": chunks, "requests": requests, "concurrency": 8}
    spec = BenchmarkSpec(
        run_id="r",
        experiment="e",
        wave=0,
        round=0,
        model="model",
        arms=(BenchmarkArm(variant="base", label="Base"),),
        workload=load | {"warmup_requests": 0},
    )
    (folder / "spec.json").write_text(spec.model_dump_json())
    server = subprocess.Popen(
        [sys.executable, Path(__file__).parent / "endurance_server.py", str(chunks)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin and server.stdout
    try:
        url = f"base=http://127.0.0.1:{server.stdout.readline().strip()}"
        command = [sys.executable, "-m", "specdecode.benchmark", "--spec", folder / "spec.json", "--arm", url]
        client = subprocess.Popen(
            [*command, "--out", folder / "out"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        raw = folder / "out" / "raw" / "base" / "c.jsonl"
        while client.poll() is None:
            if raw.exists():
                note_rss.append((raw.stat().st_size, rss_mib(client.pid)))
            time.sleep(0.5)
    finally:
        server.stdin.close()
        server.wait()
    assert client.returncode == 0
    return os.times().children_user


def test_millions_of_chunks_through_the_client(tmp_path: Path, note: Note) -> None:
    requests, chunks = 8000, 250
    seen: list[tuple[int, float]] = []
    cpu_s = _load(tmp_path, requests=requests, chunks=chunks, note_rss=seen)
    whole = max(size for size, _ in seen)
    loading = [rss for size, rss in seen if 0.5 * whole < size < 0.95 * whole]
    assert max(loading) - min(loading) < 32, "memory grows with what was measured"
    records = [read_record(line) for line in (tmp_path / "out/raw/base/c.jsonl").read_bytes().splitlines()]
    assert len(records) == requests and all(len(record.chunks) == chunks for record in records)
    note(
        f"{requests * chunks / 1e6:.0f} M chunks in {requests:,} answers through the load generator",
        f"{min(loading):.0f} to {max(loading):.0f} MiB resident while it loads, {max(rss for _, rss in seen):.0f} MiB "
        f"when the block is summed up; {cpu_s:.0f} s of CPU",
        "no request lost; memory under load does not depend on what was measured before",
    )


def test_executions_queue_up_and_are_stopped(cloud: Rehearsal, note: Note) -> None:
    """The deployed state machine. One holds the node; the others wait, are stopped, and the last two go on in order."""
    cloud.deploy()
    cloud.import_models(load_preset("rehearsal"))
    lease = LeaseStore(s3=cloud.services.client("s3"), bucket=cloud.bucket)
    small = {"workload.cases": ["repeat-line"], "workload.requests": 2, "workload.output_tokens": 16}
    runs = [cloud.start("first", {"experiment": "rehearsal", "set": small | {"workload.requests": 5000}})]
    until(cloud, lambda: lease.read().holders)
    begun = time.monotonic()
    for number in range(1, EXECUTIONS):
        runs.append(cloud.start(f"queued-{number}", {"experiment": "rehearsal", "set": small}))
        until(cloud, lambda: len(lease.read().claims) >= len(runs) - 4)
    until(cloud, lambda: len(lease.read().claims) == EXECUTIONS)
    gathered = time.monotonic() - begun
    order = [claim.run_id for claim in lease.read().claims]
    size = len(cloud.services.client("s3").get_object(Bucket=cloud.bucket, Key=s3_keys.CAPACITY_KEY)["Body"].read())
    assert order[0] == runs[0].run_id and set(order) == {run.run_id for run in runs}
    by_id = {run.run_id: run for run in runs}
    waiting = by_id[order[-1]]
    events = waiting.deployment.events(waiting.arn, newest=1000)
    looked = looks(waiting, "AcquireCapacity")
    asked = timed(lambda: waiting.deployment.cluster(), 3)

    begun = time.monotonic()
    for run_id in order[1:-2]:
        by_id[run_id].deployment.stop(by_id[run_id].arn)
    until(cloud, lambda: len(lease.read().claims) == 3)
    left = time.monotonic() - begun
    assert [claim.run_id for claim in lease.read().claims] == [order[0], *order[-2:]]
    runs[0].deployment.stop(runs[0].arn)
    for run_id in order[-2:]:
        until(cloud, lambda run_id=run_id: by_id[run_id].look().status != "RUNNING")
        assert by_id[run_id].look().status == "SUCCEEDED", by_id[run_id].look().cause
    ended = [by_id[run_id].look().stopped or "" for run_id in order[-2:]]
    assert ended == sorted(ended)
    until(cloud, lambda: lease.read().claims == () and cloud.replicas() == 0)
    note(
        f"{EXECUTIONS} executions of the deployed state machine; all but three are stopped while they wait",
        f"all in the queue after {gathered:.0f} s, lease {size / 1024:.0f} KiB; `specdecode capacity` takes "
        f"{max(asked):.1f} s; {len(events)} events of the last one after {looked} looks; the stopped have left "
        f"{left:.0f} s after the first stop",
        "the watchdog alone takes the stopped out; the last two run in order; then 0 replicas, nobody in the lease",
    )


def until(cloud: Rehearsal, condition: Callable[[], Any], *, seconds: float = 900) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        cloud.services.check()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.5)
