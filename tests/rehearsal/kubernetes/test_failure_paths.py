"""Failures of the real control plane that surprise. The double must fail in the same way."""

import asyncio
import json
import time
import urllib.error
from typing import Any

import pytest

from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.controllers.controller import start as start_all
from rehearsal.kubernetes.machinery import Cluster
from tests.patience import PATIENCE_S
from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import deployment, pod

APPLY = "application/apply-patch+yaml"


def applied(double: Double, namespace: str, body: Any) -> tuple[int, Any]:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{body['metadata']['name']}?fieldManager=me&force=true"
    return double.request("PATCH", path, json.dumps(body).encode(), kind=APPLY)


def wrong_field(body: Any) -> None:
    body["spec"]["template"]["spec"]["frobnicate"] = 1


def wrong_type(body: Any) -> None:
    body["spec"]["replicas"] = "one"


def twice(body: Any) -> None:
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "A", "value": "1"},
        {"name": "A", "value": "2"},
    ]


WRONG = [
    (wrong_field, ".spec.template.spec.frobnicate: field not declared in schema"),
    (wrong_type, ".spec.replicas: expected numeric (int or float), got string"),
    (twice, '.spec.template.spec.containers[name="main"].env: duplicate entries for key [name="A"]'),
]


@pytest.mark.parametrize(("spoil", "said"), WRONG, ids=["field", "type", "key"])
@pytest.mark.parametrize("there", [False, True], ids=["new", "there already"])
def test_an_apply_that_is_not_of_the_schema_is_a_500_without_a_reason(
    double: Double, namespace: str, spoil: Any, said: str, there: bool
) -> None:
    body = deployment("a", replicas=0)
    if there:
        assert applied(double, namespace, body)[0] == 201
    spoil(body)
    status, answer = applied(double, namespace, body)
    assert (status, answer.get("reason")) == (500, None)
    assert answer["message"] == f"failed to create typed patch object (/a; apps/v1, Kind=Deployment): {said}"


def test_all_that_is_wrong_comes_in_one_answer(double: Double, namespace: str) -> None:
    body = deployment("a", replicas=0)
    for spoil, _ in WRONG:
        spoil(body)
    _, answer = applied(double, namespace, body)
    assert all(f"\n  {said}" in answer["message"] for _, said in WRONG)


def test_the_log_of_an_evicted_pod_is_a_bad_request(double: Double, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/p"
    double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", pod("p", "echo said; exec sleep 3600"))
    double.wait(path, lambda p: p["status"].get("phase") == "Running")
    double.control("evict", namespace=namespace, pod="p")
    found = double.wait(path, lambda p: p["status"]["phase"] == "Failed")
    assert found["status"]["reason"] == "Evicted"
    ended = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    status, answer = double.request("GET", f"{path}/log")
    assert (status, answer["reason"]) == (400, "BadRequest")
    double.ok("DELETE", path)
    double.wait(path, lambda p: p is None)


def test_a_node_that_nothing_reaches(fresh: Double) -> None:
    fresh.namespace("apps")
    path = "/api/v1/namespaces/apps/pods/p"
    fresh.ok("POST", "/api/v1/namespaces/apps/pods", pod("p", "echo said; exec sleep 3600"))
    found = fresh.wait(path, lambda p: p["status"].get("phase") == "Running")
    node = f"/api/v1/nodes/{found['spec']['nodeName']}"
    fresh.control("cut", node=found["spec"]["nodeName"])
    conditions = {c["type"]: c["status"] for c in fresh.get(node)["status"]["conditions"]}
    assert conditions["Ready"] == "Unknown"
    ready = {c["type"]: c["status"] for c in fresh.get(path)["status"]["conditions"]}
    assert (ready["Ready"], fresh.get(path)["status"]["phase"]) == ("False", "Running")
    with pytest.raises((TimeoutError, urllib.error.URLError)):
        fresh.request("GET", f"{path}/log", timeout=1.0)
    fresh.ok("DELETE", path, {"gracePeriodSeconds": 1})
    time.sleep(1.5)
    assert "deletionTimestamp" in fresh.get(path)["metadata"], "nobody says that it has ended"
    fresh.control("vanish", node=found["spec"]["nodeName"])
    fresh.wait(path, lambda p: p is None)


class Hurried(Controller):
    """Wants to look again at once for one object, and later for another that takes its time."""

    looks = 0

    def reconcile(self) -> None:
        self.looks += 1
        if self.looks == 1:
            self.wake_in(0.001)
            time.sleep(0.01)
            self.wake_in(10 * PATIENCE_S)


def test_a_wish_to_look_again_soon_outlives_a_later_one() -> None:
    async def looked() -> int:
        [task] = start_all([controller := Hurried(Cluster())])
        async with asyncio.timeout(PATIENCE_S):
            while controller.looks < 2:
                await asyncio.sleep(0.01)
        task.cancel()
        return controller.looks

    assert asyncio.run(looked()) == 2
