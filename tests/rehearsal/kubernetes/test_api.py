"""The API's semantics: codes, versions, patches, selectors, watches, deletion."""

import json
import urllib.request
from itertools import islice
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import NODE_CLASS, job, pod, service, static_pool

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def config(name: str, **data: str) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def test_create_sets_what_the_server_sets(double: Double, namespace: str) -> None:
    status, made = double.request("POST", maps(namespace), config("a", k="v"))
    assert status == 201
    metadata = made["metadata"]
    assert metadata["uid"] and metadata["creationTimestamp"].endswith("Z") and int(metadata["resourceVersion"]) > 0
    assert metadata["namespace"] == namespace
    updated = double.ok("PATCH", f"{maps(namespace)}/a", {"data": {"k": "w"}}, kind=MERGE)
    assert int(updated["metadata"]["resourceVersion"]) > int(metadata["resourceVersion"])
    assert updated["metadata"]["uid"] == metadata["uid"]
    same = double.ok("PATCH", f"{maps(namespace)}/a", {"data": {"k": "w"}}, kind=MERGE)
    assert same["metadata"]["resourceVersion"] == updated["metadata"]["resourceVersion"], "nothing changed"


OLD = {**config("taken"), "metadata": {"name": "taken", "resourceVersion": "1"}}
ELSEWHERE = {**config("b"), "metadata": {"name": "b", "namespace": "x"}}
REFUSED = [
    ("a name twice", "POST", "{ns}/configmaps", config("taken"), 409, "AlreadyExists"),
    ("an old version", "PUT", "{ns}/configmaps/taken", OLD, 409, "Conflict"),
    ("what is not there", "GET", "{ns}/configmaps/none", None, 404, "NotFound"),
    ("a kind that is not there", "GET", "{ns}/widgets", None, 404, "NotFound"),
    ("an old API version", "GET", "/apis/resource.k8s.io/v1beta1/resourceslices", None, 404, "NotFound"),
    ("another kind", "POST", "{ns}/configmaps", {**config("b"), "kind": "Secret"}, 400, "BadRequest"),
    ("another namespace", "POST", "{ns}/configmaps", ELSEWHERE, 400, "BadRequest"),
    ("no such namespace", "POST", "/api/v1/namespaces/absent/configmaps", config("b"), 404, "NotFound"),
    ("a broken body", "POST", "{ns}/configmaps", b"{", 400, "BadRequest"),
    ("a patch of no known kind", "PATCH", "{ns}/configmaps/taken", {}, 415, "UnsupportedMediaType"),
    ("a method that is not there", "POST", "{ns}/configmaps/taken", {}, 405, "MethodNotAllowed"),
    ("half a selector", "GET", "{ns}/configmaps?labelSelector=a%20in%20(b", None, 400, "BadRequest"),
    ("one of the future", "GET", "{ns}/configmaps/taken?resourceVersion=99999999", None, 504, "Timeout"),
    ("a version that is none", "GET", "{ns}/configmaps?resourceVersion=x", None, 400, "BadRequest"),
    ("all objects of a kind", "DELETE", "{ns}/configmaps", None, 405, "MethodNotAllowed"),
    ("options that are none", "DELETE", "{ns}/configmaps/taken", ["x"], 400, "BadRequest"),
    ("a grace that is none", "DELETE", "{ns}/configmaps/taken?gracePeriodSeconds=x", None, 400, "BadRequest"),
    ("a validation that is none", "POST", "{ns}/configmaps?fieldValidation=Lax", config("b"), 422, "Invalid"),
    ("an apply without manager", "PATCH", "{ns}/configmaps/taken", config("taken"), 422, "Invalid"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_refusals(double: Double, namespace: str, method: str, path: str, body: Any, code: int, reason: str) -> None:
    double.ok("POST", maps(namespace), config("taken"))
    kind = APPLY if reason == "Invalid" and method == "PATCH" else "application/json"
    status, answer = double.request(method, path.replace("{ns}", f"/api/v1/namespaces/{namespace}"), body, kind=kind)
    assert (status, answer["reason"], answer["code"], answer["kind"]) == (code, reason, code, "Status")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"image": ""}, "spec.containers[0].image"),
        ({"command": []}, "spec.containers[0].command"),
        ({"readinessProbe": {"grpc": {"port": 1}}}, "readinessProbe.grpc"),
    ],
)
def test_the_field_that_a_pod_is_refused_for_is_named(
    double: Double, namespace: str, change: dict[str, Any], field: str
) -> None:
    """What is refused, and for which reason, is held by the mutants of tests/conformance."""
    status, answer = double.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod("p", "true", container=change))
    assert status == 422
    assert any(field in cause["field"] for cause in answer["details"]["causes"]), answer["message"]


def test_selectors_and_pages(double: Double, namespace: str) -> None:
    for index in range(5):
        body = config(f"c{index}")
        body["metadata"]["labels"] = {"parity": "even" if index % 2 == 0 else "odd", "n": str(index)}
        double.ok("POST", maps(namespace), body)

    def names(query: str) -> list[str]:
        return [i["metadata"]["name"] for i in double.get(f"{maps(namespace)}?{query}")["items"]]

    assert names("labelSelector=parity%3Deven") == ["c0", "c2", "c4"]
    assert names("labelSelector=parity!%3Deven,n%20in%20(1,2)") == ["c1"]
    assert names("labelSelector=!absent,n,n%20notin%20(0)") == ["c1", "c2", "c3", "c4"]
    assert names("fieldSelector=metadata.name%3Dc3") == ["c3"]
    page = double.get(f"{maps(namespace)}?limit=2")
    assert [i["metadata"]["name"] for i in page["items"]] == ["c0", "c1"] and page["metadata"][
        "remainingItemCount"
    ] == 4
    assert names(f"limit=2&continue={page['metadata']['continue']}") == ["c2", "c3"]


def test_patches(double: Double, namespace: str) -> None:
    double.ok("POST", maps(namespace), config("a", x="1", y="2"))
    path = f"{maps(namespace)}/a"
    assert double.ok("PATCH", path, {"data": {"x": None, "z": "3"}}, kind=MERGE)["data"] == {"y": "2", "z": "3"}
    status, refused = double.request("PATCH", path, [], kind="application/json-patch+json")
    assert status == 415 and "application/merge-patch+json" in refused["message"]


def test_status_is_a_subresource(double: Double, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    body = {**job("x", "true"), "status": {"succeeded": 7}}
    body["spec"]["suspend"] = True
    assert "succeeded" not in double.ok("POST", path, body).get("status", {})
    changed = double.ok("PATCH", f"{path}/x", {"status": {"succeeded": 7}, "spec": {"parallelism": 1}}, kind=MERGE)
    assert "succeeded" not in changed.get("status", {})


def test_watch_from_a_version_and_through_a_selector(double: Double, namespace: str) -> None:
    start = double.get(maps(namespace))["metadata"]["resourceVersion"]
    body = config("a")
    body["metadata"]["labels"] = {"in": "yes"}
    double.ok("POST", maps(namespace), body)
    double.ok("POST", maps(namespace), config("other"))
    double.ok("PATCH", f"{maps(namespace)}/a", {"data": {"k": "v"}}, kind=MERGE)
    double.ok("PATCH", f"{maps(namespace)}/a", {"metadata": {"labels": {"in": "no"}}}, kind=MERGE)
    body["metadata"]["name"] = "last"
    double.ok("POST", maps(namespace), body)
    query = f"watch=true&resourceVersion={start}&labelSelector=in%3Dyes"
    request = urllib.request.Request(
        f"{double.url}{maps(namespace)}?{query}", headers={"Authorization": f"Bearer {double.token}"}
    )
    with double._opener.open(request, timeout=PATIENCE_S) as reply:
        events = [json.loads(line) for line in islice(reply, 4)]
    told = [f"{event['type']} {event['object']['metadata']['name']}" for event in events]
    assert told == ["ADDED a", "MODIFIED a", "DELETED a", "ADDED last"]


def test_a_job_that_is_deleted_by_the_bare_api_orphans_its_pods(double: Double, namespace: str) -> None:
    jobs, pods = f"/apis/batch/v1/namespaces/{namespace}/jobs", f"/api/v1/namespaces/{namespace}/pods"
    for name, policy, left in (("bare", None, 1), ("back", "Background", 0), ("fore", "Foreground", 0)):
        double.ok("POST", jobs, job(name, "true"))
        double.wait(f"{jobs}/{name}", lambda j: j.get("status", {}).get("succeeded") == 1)
        double.ok("DELETE", f"{jobs}/{name}", {"propagationPolicy": policy} if policy else None)
        double.wait(f"{jobs}/{name}", lambda j: j is None)
        double.wait(f"{pods}?labelSelector=job-name%3D{name}", lambda p, left=left: len(p["items"]) == left)
    orphan = double.get(f"{pods}?labelSelector=job-name%3Dbare")["items"][0]
    assert "ownerReferences" not in orphan["metadata"]


def test_finalizers_and_preconditions(double: Double, namespace: str) -> None:
    body = config("a")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    double.ok("POST", maps(namespace), body)
    status, _ = double.request("DELETE", f"{maps(namespace)}/a", {"preconditions": {"uid": "another"}})
    assert status == 409
    assert "deletionTimestamp" in double.ok("DELETE", f"{maps(namespace)}/a")["metadata"]
    double.ok("PATCH", f"{maps(namespace)}/a", {"metadata": {"finalizers": None}}, kind=MERGE)
    assert double.request("GET", f"{maps(namespace)}/a")[0] == 404


def test_a_service_that_the_double_cannot_route_is_refused(double: Double, namespace: str) -> None:
    body = service("a")
    body["spec"]["ports"][0]["targetPort"] = 9000
    assert double.request("POST", f"/api/v1/namespaces/{namespace}/services", body)[0] == 422


@pytest.fixture(scope="session")
def with_karpenter(shared_double: Double) -> Double:
    shared_double.helm("karpenter-crd", "1.14.1")
    return shared_double


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instanceProfile": "x"}, "exactly one of"),
        ({"amiSelectorTerms": [{"id": "ami-1"}]}, "specify amiFamily"),
        ({"amiSelectorTerms": [{"alias": "windows2022@v1"}]}, "version 'latest'"),
        ({"amiFamily": "AL2"}, "if set, amiFamily"),
        ({"capacityReservationSelectorTerms": [{"id": "x"}]}, "should match"),
        ({"subnetSelectorTerms": []}, "cannot be empty"),
        ({"blockDeviceMappings": [{"ebs": {"volumeInitializationRate": 100}}]}, "snapshotID must be"),
        ({"kubelet": {"maxPods": 5}}, "rehearsal cannot run this"),
        ({"networkInterfaces": [{"deviceIndex": 0}]}, "rehearsal cannot run"),
    ],
)
def test_karpenter_objects_are_checked_as_by_their_crds(
    with_karpenter: Double, change: dict[str, Any], message: str
) -> None:
    """Rule by rule in tests/upstream/against_karpenter_crds.py."""
    body = {**NODE_CLASS, "spec": {**NODE_CLASS["spec"], **change}}
    path = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses?dryRun=All&fieldValidation=Strict"
    status, answer = with_karpenter.request("POST", path, body)
    assert status in (400, 422) and message in answer["message"], answer


def test_good_karpenter_objects_pass_and_get_defaults(with_karpenter: Double) -> None:
    made = with_karpenter.ok("POST", "/apis/karpenter.sh/v1/nodepools?dryRun=All", static_pool())
    assert made["spec"]["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    made = with_karpenter.ok("POST", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses?dryRun=All", NODE_CLASS)
    assert made["spec"]["metadataOptions"]["httpPutResponseHopLimit"] == 1


def test_a_static_pool_stays_static_and_a_dynamic_one_has_no_scale(with_karpenter: Double) -> None:
    pools = "/apis/karpenter.sh/v1/nodepools"
    dynamic = static_pool()
    dynamic["metadata"]["name"] = "dynamic"
    del dynamic["spec"]["replicas"]
    with_karpenter.ok("POST", pools, dynamic)
    assert with_karpenter.request("GET", f"{pools}/dynamic/scale")[0] == 500
    status, answer = with_karpenter.request("PATCH", f"{pools}/dynamic", {"spec": {"replicas": 1}}, kind=MERGE)
    assert status == 422 and "Cannot transition" in answer["message"]
    with_karpenter.ok("DELETE", f"{pools}/dynamic")


@pytest.mark.parametrize(("code", "count"), [(429, 2), (500, 1), (0, 1)])
def test_injected_api_faults(double: Double, namespace: str, code: int, count: int) -> None:
    double.control("faults", api=[{"code": code, "count": count, "path": namespace}])
    for _ in range(count):
        if code:
            assert double.request("GET", maps(namespace))[0] == code
        else:
            with pytest.raises(OSError):
                double.request("GET", maps(namespace))
    assert double.request("GET", maps(namespace))[0] == 200


def test_unknown_faults_are_refused(double: Double) -> None:
    assert double.request("POST", "/_rehearsal/faults", {"no_capacty": True})[0] == 400
