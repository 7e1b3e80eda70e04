"""Quotas and limit ranges, as the API server's admission applies them."""

from typing import Any

import pytest
from specdecode.assets import kubernetes_objects

from rehearsal.kubernetes import quotas
from rehearsal.kubernetes import resources as r
from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import job, pod


def quota(double: Double, namespace: str, **hard: str) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "bounds"}, "spec": {"hard": hard}}
    double.ok("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", body)


def config(double: Double, namespace: str, name: str) -> tuple[int, Any]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return double.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)


def test_one_more_than_the_quota_is_refused_in_the_servers_words(double: Double, namespace: str) -> None:
    quota(
        double, namespace, **{"count/configmaps": "3", "configmaps": "5", "secrets": "1"}
    )  # one is the cluster's certificate
    assert [config(double, namespace, name)[0] for name in "ab"] == [201, 201]
    code, answer = config(double, namespace, "c")
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        'configmaps "c" is forbidden: exceeded quota: bounds, '
        "requested: count/configmaps=1, used: count/configmaps=3, limited: count/configmaps=3"
    )
    used = {"count/configmaps": "3", "configmaps": "3", "secrets": "0"}
    double.wait(
        f"/api/v1/namespaces/{namespace}/resourcequotas/bounds", lambda q: q.get("status", {}).get("used") == used
    )
    double.ok("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/a")
    assert config(double, namespace, "c")[0] == 201


def test_server_side_apply_and_dry_run_count_too(double: Double, namespace: str) -> None:
    quota(double, namespace, configmaps="0")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    apply = f"{path}/a?fieldManager=x"
    assert double.request("PATCH", apply, body, kind="application/apply-patch+yaml")[0] == 403
    assert double.request("POST", f"{path}?dryRun=All", body)[0] == 403


def test_a_job_whose_pod_is_refused_says_so_and_goes_on_when_there_is_room(double: Double, namespace: str) -> None:
    quota(double, namespace, pods="1")
    double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", pod("first", "sleep 3600"))
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    double.ok("POST", jobs, job("waits", "true"))
    events = f"/api/v1/namespaces/{namespace}/events"
    double.wait(events, lambda found: any(event["reason"] == "FailedCreate" for event in found["items"]))
    said = double.events(namespace, "FailedCreate")[0]
    assert said.startswith('Error creating: pods "waits-')
    assert said.endswith("is forbidden: exceeded quota: bounds, requested: pods=1, used: pods=1, limited: pods=1")
    double.ok("DELETE", f"/api/v1/namespaces/{namespace}/pods/first", {"gracePeriodSeconds": 0})
    double.wait(f"{jobs}/waits", lambda found: found.get("status", {}).get("succeeded") == 1)


@pytest.mark.parametrize(
    ("kind", "used"),
    [
        ("ClusterIP", {}),
        ("NodePort", {"services.nodeports": 2}),
        ("LoadBalancer", {"services.nodeports": 2, "services.loadbalancers": 1}),
    ],
)
def test_what_a_service_counts_for(kind: str, used: dict[str, int]) -> None:
    service = {"metadata": {}, "spec": {"type": kind, "ports": [{"port": 80}, {"port": 443}]}}
    assert quotas.usage(r.SERVICES, service) == {"count/services": 1, "services": 1, **used}


@pytest.mark.parametrize(
    ("phase", "counts"), [("Pending", True), ("Running", True), ("Succeeded", False), ("Failed", False)]
)
def test_a_pod_that_has_ended_is_none_of_pods(phase: str, counts: bool) -> None:
    assert ("pods" in quotas.usage(r.PODS, {"metadata": {}, "status": {"phase": phase}})) is counts


def test_requests_that_are_missing_are_filled_in_and_others_kept(double: Double, namespace: str) -> None:
    (limits,) = [obj for obj in kubernetes_objects("bounds.yaml") if obj["kind"] == "LimitRange"]
    limits["metadata"]["namespace"] = namespace
    double.ok("POST", f"/api/v1/namespaces/{namespace}/limitranges", limits)
    given = {"resources": {"requests": {"cpu": "2"}}}
    made = double.ok("POST", f"/api/v1/namespaces/{namespace}/pods", pod("a", "true", container=given))
    requests = made["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "2", "memory": "128Mi", "ephemeral-storage": "1Gi"}
    assert "limits" not in made["spec"]["containers"][0]["resources"], "a CPU limit throttles"
    assert "memory" in made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]


@pytest.mark.parametrize(
    "spec", [{"hard": {"requests.cpu": "1"}}, {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}], ids=["cpu", "scopes"]
)
def test_a_quota_that_would_be_ignored_is_refused(double: Double, namespace: str, spec: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
    code, answer = double.request("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", body)
    assert code == 422 and "the rehearsal cannot run this" in answer["message"]
