"""A cluster of thousands of objects of others, and watches that are closed under churn."""

import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from specdecode import names
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.connect import https_transport
from specdecode.kubernetes.failure_files import collect_logs, collect_status
from specdecode.kubernetes.teardown import delete_workloads, run_selector

from rehearsal.rehearse import Rehearsal
from tests.end_to_end.endurance.measuring import MIB, Note, rss_mib, spread, timed

OBJECTS = 5000


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
