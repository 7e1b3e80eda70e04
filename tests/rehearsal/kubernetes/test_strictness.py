"""A client that does not ask for strict validation gets warnings about dropped fields. The objects and rules of a new
namespace.
"""

import urllib.request
from pathlib import Path

import pytest

from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import job, pod, until_ended

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.mark.parametrize(
    ("asked", "warned"), [("", True), ("?fieldValidation=Warn", True), ("?fieldValidation=Ignore", False)]
)
def test_unknown_fields_are_dropped_with_a_warning(double: Double, namespace: str, asked: str, warned: bool) -> None:
    body = b'{"metadata": {"name": "a"}, "dta": {}}'
    headers = {"Authorization": f"Bearer {double.token}", "Content-Type": "application/json"}
    url = f"{double.url}/api/v1/namespaces/{namespace}/configmaps{asked}"
    with double._opener.open(urllib.request.Request(url, method="POST", data=body, headers=headers)) as reply:
        assert reply.headers["Warning"] == ('299 - "unknown field \\"dta\\""' if warned else None)
    assert "dta" not in double.get(f"/api/v1/namespaces/{namespace}/configmaps/a")


def test_every_namespace_gets_the_certificate_and_gets_it_back(double: Double, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt"
    found = double.wait(path, bool)
    assert found["data"]["ca.crt"] == double.ca_file.read_text()
    double.ok("DELETE", path)
    assert double.wait(path, bool)["data"] == found["data"]


def test_a_job_whose_pod_is_refused_says_so_in_upstreams_words(double: Double) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted-words", "labels": RESTRICTED}}
    double.ok("POST", "/api/v1/namespaces", body)
    double.wait("/api/v1/namespaces/restricted-words/serviceaccounts/default", bool)
    status, answer = double.request("POST", "/api/v1/namespaces/restricted-words/pods", pod("p", "true"))
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        'pods "p" is forbidden: violates PodSecurity "restricted:latest": '
        'allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "main" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
        '"Localhost")'
    )
    double.ok("POST", "/apis/batch/v1/namespaces/restricted-words/jobs", job("j", "true"))
    double.wait(
        "/api/v1/namespaces/restricted-words/events", lambda _: double.events("restricted-words", "FailedCreate")
    )
    assert "violates PodSecurity" in double.events("restricted-words", "FailedCreate")[0]


def test_a_job_with_a_failure_policy_replaces_a_pod_only_when_it_has_ended(
    double: Double, namespace: str, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    slow = job("slow", until_ended(flag, code=1), backoff_limit=3, terminationGracePeriodSeconds=600)
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    slow["spec"]["podFailurePolicy"] = {"rules": [rule]}
    jobs, pods = f"/apis/batch/v1/namespaces/{namespace}/jobs", f"/api/v1/namespaces/{namespace}/pods"
    assert double.ok("POST", jobs, slow)["spec"]["podReplacementPolicy"] == "Failed"
    double.wait(f"{jobs}/slow", lambda j: j.get("status", {}).get("ready") == 1)
    (first,) = double.get(pods)["items"]
    double.ok("DELETE", f"{pods}/{first['metadata']['name']}")
    assert len(double.get(pods)["items"]) == 1, "the old one is still going"
    flag.touch()
    double.wait(pods, lambda p: [i for i in p["items"] if i["metadata"]["uid"] != first["metadata"]["uid"]])
    double.ok("DELETE", f"{jobs}/slow", {"propagationPolicy": "Background"})
