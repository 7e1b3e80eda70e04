"""Failures of the real control plane that surprise. The double must fail in the same way."""

import json
import time
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import deployment, job, neuron_pod, pod, wait_for

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


def test_a_job_makes_another_pod_for_one_that_was_evicted(double: Double, namespace: str, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    double.ok("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job("j", wait_for(flag), backoff_limit=1))
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def running(found: Any) -> list[str]:
        return [pod["metadata"]["name"] for pod in found["items"] if pod["status"].get("phase") == "Running"]

    (first,) = running(double.wait(pods, running))
    double.control("evict", namespace=namespace, pod=first)
    flag.touch()
    done = double.wait(f"/apis/batch/v1/namespaces/{namespace}/jobs/j", lambda j: j["status"].get("succeeded") == 1)
    assert done["status"]["failed"] == 1


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


def test_a_pod_without_its_claim_template_has_an_event_and_no_condition(fresh: Double) -> None:
    fresh.namespace("apps")
    fresh.ok("POST", "/api/v1/namespaces/apps/pods", neuron_pod("p"))
    fresh.wait("/api/v1/namespaces/apps/events", lambda found: found["items"])
    (said,) = set(fresh.events("apps", "FailedResourceClaimCreation"))
    assert said == (
        'PodResourceClaim neuron: resource claim template "trn2-8dev": '
        'resourceclaimtemplate.resource.k8s.io "trn2-8dev" not found'
    )
    assert not fresh.get("/api/v1/namespaces/apps/pods/p").get("status", {}).get("conditions")


def test_a_limit_that_is_set_below_a_request_makes_the_pod_invalid(double: Double, namespace: str) -> None:
    limits = {"limits": [{"type": "Container", "default": {"cpu": "500m"}}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits}
    double.ok("POST", f"/api/v1/namespaces/{namespace}/limitranges", body)
    asks = job("j", "true", container={"resources": {"requests": {"cpu": "2"}}})
    double.ok("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", asks)
    double.wait(f"/api/v1/namespaces/{namespace}/events", lambda _: double.events(namespace, "FailedCreate"))
    said = double.events(namespace, "FailedCreate")[0]
    assert said.startswith('Error creating: Pod "j-')
    assert said.endswith('requests: Invalid value: "2": must be less than or equal to cpu limit of 500m')
