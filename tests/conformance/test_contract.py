"""What the product needs from an API server: its objects as its own user, rights, quota, teardown, malformed
requests.
"""

from pathlib import Path

import pytest
import yaml
from specdecode import names
from specdecode.experiment import load_preset, preset_names
from specdecode.manifests import RenderContext, all_objects
from specdecode.planning import Plan

from tests.conformance.server import Json, Server, path_of
from tests.plans import PRICED, plan_for

BOUNDS = Path(__file__).parents[2] / "assets" / "kubernetes" / "bounds.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
APPLY = "?dryRun=All&fieldManager=specdecode&force=true"
PIPELINE = {"Impersonate_User": "conformance", "Impersonate_Group": names.PIPELINE_GROUP}
CONTEXT = RenderContext(
    run_id="conformance", bucket="artifacts", bundle_uri="s3://assets/bundle.zip", bundle_sha256="ab" * 32,
    region="us-east-2",
)  # fmt: skip


def plan_of(preset: str) -> Plan:
    return plan_for(load_preset(preset, overrides={"accuracy": True}), capacity=PRICED)


def objects(preset: str, namespace: str) -> list[Json]:
    found = all_objects(plan_of(preset), CONTEXT)
    return [{**o, "metadata": {**o["metadata"], "namespace": namespace}} for o in found]


@pytest.mark.parametrize("preset", preset_names())
def test_the_pipelines_user_applies_every_object_of_a_preset(server: Server, granted: str, preset: str) -> None:
    for body in objects(preset, granted):
        if body["kind"] == "NetworkPolicy":  # the deployment's
            continue
        path = path_of(body, granted)
        if body["kind"] == "Secret":
            status, answer = server.request("POST", f"{path}?dryRun=All", body, **PIPELINE)
        else:
            headers = {**PIPELINE, "Content_Type": "application/apply-patch+yaml"}
            status, answer = server.request("PATCH", f"{path}/{body['metadata']['name']}{APPLY}", body, **headers)
        assert status == 201, (body["kind"], body["metadata"]["name"], answer)


@pytest.mark.parametrize("preset", preset_names())
def test_every_pod_of_a_preset_is_admitted_under_the_restricted_standard(
    server: Server, granted: str, preset: str
) -> None:
    templates = [o["spec"]["template"] for o in objects(preset, granted) if "template" in o.get("spec", {})]
    assert templates
    for template in templates:
        metadata = {**template["metadata"], "name": "a"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        path = f"/api/v1/namespaces/{granted}/pods?dryRun=All&fieldValidation=Strict"
        status, answer = server.request("POST", path, body)
        assert status == 201, answer


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/secrets"),
        ("DELETE", "/api/v1/nodes/a"),
        ("POST", f"{RBAC}/clusterroles"),
        ("GET", "/api/v1/nodes/a"),
    ],
)
def test_the_pipelines_user_may_no_more_than_its_role(server: Server, granted: str, method: str, path: str) -> None:
    body = {"metadata": {"name": "a"}, "rules": []} if method == "POST" else None
    status, answer = server.request(method, path, body, **PIPELINE)
    assert (status, answer["reason"]) == (403, "Forbidden")


MALFORMED = [
    ("limit=abc", 400),
    ("labelSelector=a%20like%20b", 400),
    ("labelSelector=a%3D-b", 400),
    ("fieldSelector=data.k%3Dv", 400),
    ("resourceVersion=999999999999", 504),
]


@pytest.mark.parametrize(("query", "code"), MALFORMED)
def test_a_malformed_list_is_refused_with_a_status(
    server: Server, namespaces: dict[str, str], query: str, code: int
) -> None:
    status, answer = server.request("GET", f"/api/v1/namespaces/{namespaces['open']}/configmaps?{query}")
    assert (status, answer["kind"]) == (code, "Status")


def test_a_quota_refuses_one_more(server: Server) -> None:
    namespace = server.namespace()
    root = f"/api/v1/namespaces/{namespace}"
    quota = {"metadata": {"name": "bounds"}, "spec": {"hard": {"services": "0"}}}
    assert server.request("POST", f"{root}/resourcequotas", quota)[0] == 201
    server.wait(lambda: server.request("GET", f"{root}/resourcequotas/bounds")[1].get("status", {}).get("hard"))
    service = {"metadata": {"name": "a"}, "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}
    status, answer = server.request("POST", f"{root}/services", service)
    assert status == 403 and "exceeded quota: bounds" in answer["message"]


def test_the_namespaces_bounds_as_deployed(server: Server) -> None:
    """They are accepted, a container without requests gets their defaults, and a Service cannot be reached from
    outside.
    """
    namespace = server.namespace()
    root = f"/api/v1/namespaces/{namespace}"
    for body in yaml.safe_load_all(BOUNDS.read_text()):
        metadata = {"name": body["metadata"]["name"]}
        server.ok("POST", path_of(body, namespace), {**body, "metadata": metadata})
        hard = body["spec"].get("hard")
        if hard:
            server.wait(lambda: server.ok("GET", f"{root}/resourcequotas/specdecode").get("status", {}).get("hard"))
    container = {"name": "main", "image": "example.com/image:1", "command": ["/bin/true"]}
    pod = {"metadata": {"name": "a"}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    made = server.ok("POST", f"{root}/pods?dryRun=All", pod)["spec"]["containers"][0]["resources"]
    assert made == {"requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "1Gi"}}


def test_the_roots_deletion_takes_what_it_owns(server: Server) -> None:
    path = f"/api/v1/namespaces/{server.namespace()}/configmaps"
    owner = server.request("POST", path, {"metadata": {"name": "root"}})[1]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "root", "uid": owner["metadata"]["uid"]}
    for name, blocks in (("one", True), ("two", False)):
        metadata = {"name": name, "ownerReferences": [{**reference, "blockOwnerDeletion": blocks}]}
        assert server.request("POST", path, {"metadata": metadata})[0] == 201
    assert server.request("DELETE", f"{path}/root", {"propagationPolicy": "Foreground"})[0] == 200
    for name in ("one", "two", "root"):
        server.wait(lambda name=name: server.request("GET", f"{path}/{name}")[0] == 404)
