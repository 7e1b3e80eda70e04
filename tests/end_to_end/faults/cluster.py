"""The API server, the mounts and what the cluster admits."""

import pytest
from specdecode import names

from tests.end_to_end.cloud import SMALL, looks
from tests.end_to_end.faults.cases import fails, succeeds


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


def test_the_bucket_cannot_be_mounted(cloud):
    run = cloud.start("mount-denied", SMALL | {"deadlines.serve": 1})
    cloud.until_step(run, "AcquireCapacity")
    cloud.control("faults", mount_denied="models")
    fails(cloud, run, fault="S3 denies the mount", where="Serve", error="ServeNotReady", row="s3-denied")


def test_the_mount_dies_while_the_servers_load(cloud):
    """A restarted container finds it dead too. What was compiled is kept, and a resumed run serves it."""
    run = cloud.start("mount-dies")
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
    assert looks(again, "Compile") == 1, "the artifacts are there"


def test_a_claim_template_is_missing(cloud):
    """The pod has an event and no condition: the scheduler does not look at it."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{names.NAMESPACE}/resourceclaimtemplates"
    templates = cloud.listed(path)
    for template in templates:
        cloud.running.kubernetes.request("DELETE", f"{path}/{template['metadata']['name']}")
    cloud.forget("compiled/")
    try:
        run = cloud.start("no-template")
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
        run = cloud.start("limit-range")
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
    run = cloud.start("other-schema")
    fails(
        cloud,
        run,
        fault="the cluster does not know a field of a Job",
        where="StageModels",
        error="InvalidManifest",
        row="manifest-refused",
    )
