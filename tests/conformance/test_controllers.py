"""What controllers and the scheduler do with the product's objects: the failures that it reads, claims, teardown."""

from collections.abc import Iterator

import pytest
from specdecode import names
from specdecode.manifests import run_root
from specdecode.manifests.pods import owned

from tests.conformance.fake_node import RESOURCES, claim_template, make_devices, make_node, pod_spec
from tests.conformance.server import Json, Server, path_of
from tests.conformance.test_contract import CONTEXT, PIPELINE, objects, plan_of

MERGE = {"Content_Type": "application/merge-patch+json"}


@pytest.fixture(scope="module")
def node(server: Server) -> str:
    return make_node(server)


@pytest.fixture
def namespace(server: Server) -> str:
    return server.namespace()


def jobs(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def job(spec: Json, **extra: object) -> Json:
    return {"metadata": {"name": "job"}, "spec": {"backoffLimit": 0, "template": {"spec": spec}, **extra}}


def events(server: Server, namespace: str, reason: str) -> Iterator[str]:
    for event in server.ok("GET", f"/api/v1/namespaces/{namespace}/events")["items"]:
        if event["reason"] == reason:
            yield event["message"]


def needs_claims(server: Server) -> None:
    if server.lacks("resource.k8s.io/v1"):
        pytest.skip("the server does not serve resource.k8s.io/v1 (device claims)")


def test_a_claim_gets_devices_that_are_wired_together(server: Server, node: str, namespace: str) -> None:
    needs_claims(server)
    make_devices(server, node, groups=[1, 2, 2, 1, 2])
    server.ok("POST", f"{RESOURCES}/namespaces/{namespace}/resourceclaimtemplates", claim_template(node, 3))
    container = {"resources": {"claims": [{"name": "devices"}]}}
    claim = {"name": "devices", "resourceClaimTemplateName": "devices"}
    for name in ("first", "second"):
        spec = pod_spec(node, container=container, resourceClaims=[claim])
        server.ok("POST", pods(namespace), {"metadata": {"name": name}, "spec": spec})
        if name == "first":
            server.wait(lambda: server.ok("GET", f"{pods(namespace)}/first")["spec"].get("nodeName") == node)
    claims = server.ok("GET", f"{RESOURCES}/namespaces/{namespace}/resourceclaims")["items"]
    (allocated,) = [c["status"]["allocation"] for c in claims if c.get("status", {}).get("allocation")]
    assert sorted(r["device"] for r in allocated["devices"]["results"]) == ["device-1", "device-2", "device-4"]
    (said,) = {*server.wait(lambda: [*events(server, namespace, "FailedScheduling")])}
    assert "cannot allocate all claims" in said


def test_a_pod_without_its_claim_template_has_an_event_and_no_condition(server: Server, namespace: str) -> None:
    needs_claims(server)
    claim = {"name": "neuron", "resourceClaimTemplateName": "gone"}
    server.ok("POST", pods(namespace), {"metadata": {"name": "a"}, "spec": pod_spec(resourceClaims=[claim])})
    said = server.wait(lambda: [*events(server, namespace, "FailedResourceClaimCreation")])[0]
    assert said.startswith('PodResourceClaim neuron: resource claim template "gone": ') and said.endswith("not found")
    assert not server.ok("GET", f"{pods(namespace)}/a").get("status", {}).get("conditions")


def test_a_job_at_its_deadline_fails_and_loses_its_pod(server: Server, namespace: str) -> None:
    server.ok("POST", jobs(namespace), job(pod_spec(), activeDeadlineSeconds=2))
    server.wait(lambda: [*events(server, namespace, "SuccessfulCreate")])
    failed = server.wait(
        lambda: [
            (c["reason"], c["message"])
            for c in server.ok("GET", f"{jobs(namespace)}/job").get("status", {}).get("conditions", ())
            if c["type"] == "Failed"
        ]
    )
    assert failed == [("DeadlineExceeded", "Job was active longer than specified deadline")]
    server.wait(lambda: not server.ok("GET", pods(namespace))["items"])


def test_an_evicted_pod_is_one_failure_and_has_no_log(server: Server, node: str, namespace: str) -> None:
    server.ok("POST", jobs(namespace), job(pod_spec(node), backoffLimit=1))
    bound = [p for p in server.wait(lambda: _bound(server, namespace))]
    path = f"{pods(namespace)}/{bound[0]}"
    ended = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"}
    container = {"name": "main", "image": "a", "imageID": "", "ready": False, "restartCount": 0}
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "containerStatuses": [{**container, "state": {"terminated": ended}}],
    }
    server.ok("PATCH", f"{path}/status", {"status": status}, **MERGE)
    server.wait(lambda: [p for p in _bound(server, namespace) if p != bound[0]])
    assert server.ok("GET", f"{jobs(namespace)}/job")["status"]["failed"] == 1
    status_code, answer = server.request("GET", f"{path}/log")
    assert status_code >= 400 and answer["kind"] == "Status"


def _bound(server: Server, namespace: str) -> list[str]:
    return [p["metadata"]["name"] for p in server.ok("GET", pods(namespace))["items"] if p["spec"].get("nodeName")]


def test_a_limit_below_a_request_refuses_a_jobs_pods_and_an_event_says_so(server: Server, namespace: str) -> None:
    limits = {"limits": [{"type": "Container", "default": {"cpu": "500m"}}]}
    server.ok("POST", f"/api/v1/namespaces/{namespace}/limitranges", {"metadata": {"name": "low"}, "spec": limits})
    spec = pod_spec(container={"resources": {"requests": {"cpu": "2"}}})
    server.ok("POST", jobs(namespace), job(spec))
    said = server.wait(lambda: [*events(server, namespace, "FailedCreate")])[0]
    assert said.startswith('Error creating: Pod "job-') and " is invalid: " in said
    assert said.endswith('requests: Invalid value: "2": must be less than or equal to cpu limit of 500m')


def test_a_quota_refuses_a_jobs_pods_and_an_event_says_so(server: Server, namespace: str) -> None:
    quota = {"metadata": {"name": "bounds"}, "spec": {"hard": {"pods": "0"}}}
    root = f"/api/v1/namespaces/{namespace}/resourcequotas"
    server.ok("POST", root, quota)
    server.wait(lambda: server.ok("GET", f"{root}/bounds").get("status", {}).get("hard"))
    server.ok("POST", jobs(namespace), job(pod_spec()))
    said = server.wait(lambda: [*events(server, namespace, "FailedCreate")])[0]
    assert "is forbidden: exceeded quota: bounds, requested: pods=1, used: pods=0, limited: pods=0" in said


def test_the_root_takes_a_whole_run_with_it(server: Server, granted: str) -> None:
    """As in the pipeline, every object of a run has the root as owner. Then the root is deleted in the foreground."""
    preset = "qwen3-32b"
    root = {**run_root(plan_of(preset), CONTEXT)}
    root["metadata"] = {**root["metadata"], "namespace": granted}
    made = _applied(server, granted, root)
    kinds = set()
    for body in objects(preset, granted):
        if body["kind"] in ("Job", "Service", "ConfigMap", "Secret"):
            _applied(server, granted, owned(body, made))
            kinds.add(body["kind"])
    assert {"Job", "Service", "Secret"} <= kinds
    path = f"{path_of(root, granted)}/{root['metadata']['name']}"
    server.ok(
        "DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}, **PIPELINE
    )
    server.wait(lambda: server.request("GET", path)[0] == 404)
    label = f"{names.RUN_LABEL}={names.run_label(CONTEXT.run_id)}"
    for kind in (f"{jobs(granted)}", f"/api/v1/namespaces/{granted}/services", f"/api/v1/namespaces/{granted}/secrets"):
        assert not server.ok("GET", f"{kind}?labelSelector={label}")["items"]


def _applied(server: Server, namespace: str, body: Json) -> Json:
    path = path_of(body, namespace)
    if body["kind"] == "Secret":
        return server.ok("POST", path, body, **PIPELINE)
    headers = {**PIPELINE, "Content_Type": "application/apply-patch+yaml"}
    return server.ok("PATCH", f"{path}/{body['metadata']['name']}?fieldManager=specdecode&force=true", body, **headers)
