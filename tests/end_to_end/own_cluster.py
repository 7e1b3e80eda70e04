"""A cluster that exists: SpecDecodeStack alone on it, a whole run with rights in one namespace, and what it leaves.

Not part of `make test` (about two minutes):

    .venv/bin/pytest -s tests/end_to_end/own_cluster.py

The cluster is another team's: TrainiumClusterStack, deployed before, whose Karpenter was told to bring a node.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from specdecode import names, s3_keys
from specdecode.experiment import load_preset

from constructs_lib.cluster.access import DEPLOYER_GROUP, READER_GROUP
from constructs_lib.settings.versions import ADDONS
from rehearsal import tools
from rehearsal.deployment import TIMEOUT_S, Deployment, synth
from rehearsal.rehearse import Rehearsal
from rehearsal.servers import CLUSTER, ISSUER
from tests.end_to_end.cloud import SMALL, quiet_rehearsal
from tests.templates import Templates

THEIRS, OURS = "TrainiumClusterStack", "SpecDecodeStack"
POOL = f"/apis/karpenter.sh/v1/nodepools/{names.NODEPOOL}"
PIPELINE = [READER_GROUP, names.PIPELINE_GROUP, names.SESSIONS_GROUP]
OUTSIDE = [
    ("", "nodes"),
    ("", "namespaces"),
    ("", "persistentvolumes"),
    ("karpenter.sh", "nodepools"),
    ("karpenter.sh", "nodepools/scale"),
    ("karpenter.sh", "nodeclaims"),
    ("karpenter.k8s.aws", "ec2nodeclasses"),
    ("resource.k8s.io", "resourceslices"),
    ("rbac.authorization.k8s.io", "clusterroles"),
]


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """The rehearsal, and our deployment on the other team's cluster."""

    running: Rehearsal
    settings: Mapping[str, str]
    ours: Deployment

    def may(self, groups: list[str], verb: str, group: str, resource: str, **where: str) -> bool:
        """Whether the API server lets members of `groups` do that (`kubectl auth can-i`)."""
        resource, _, sub = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": sub, **where}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {"user": "a-function", "groups": groups, "resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self.running.kubernetes.request("POST", path, review)["status"]["allowed"])


def theirs(running: Rehearsal) -> dict[str, str]:
    """What another team has: a cluster with the driver for S3. Our settings for it."""
    running.prepare()
    running.deployment.deploy(THEIRS).wait(timeout_s=TIMEOUT_S)
    driver = "aws-mountpoint-s3-csi-driver"
    addon = {
        "request": "Create",
        "name": driver,
        "version": ADDONS["1.35"][driver],
        "configuration": "",
        "role_arn": "",
    }
    running.kubernetes.request("POST", "/_rehearsal/addon", addon)
    pages = running.services.client("cloudformation").describe_stack_resources(StackName=THEIRS)["StackResources"]
    (vpc,) = (item["PhysicalResourceId"] for item in pages if item["ResourceType"] == "AWS::EC2::VPC")
    subnets = [
        item["PhysicalResourceId"]
        for item in pages
        if item["ResourceType"] == "AWS::EC2::Subnet" and "private" in item["LogicalResourceId"].lower()
    ]
    return {
        "existing_cluster": CLUSTER,
        "cluster_endpoint": running.services.kubernetes_url,
        "cluster_ca": base64.b64encode(running.services.kubernetes_ca.read_bytes()).decode(),
        "cluster_security_group": "sg-0123456789abcdef0",
        "cluster_oidc_issuer": ISSUER,
        "vpc_id": vpc,
        "subnet_ids": ",".join(subnets[:2]),
        "availability_zones": "use2-az1,use2-az2",
    }


def deployed_on(running: Rehearsal, settings: Mapping[str, str]) -> Foreign:
    """Their administrator applies what is printed for `settings`; then ours is deployed."""
    given = [f"{key}={value}" for key, value in settings.items()]
    program = [sys.executable, "-m", "constructs_lib.administrator_objects", *given]
    printed = subprocess.run(program, cwd=tools.ROOT, capture_output=True, text=True, check=True).stdout
    for obj in yaml.safe_load_all(printed):
        running.kubernetes.apply(obj, manager="kubectl")
    ours = Deployment(processes=running.processes, services=running.services, out="ours.out")
    synth(running.processes, settings, out=ours.out).wait(timeout_s=TIMEOUT_S)
    ours.deploy().wait(timeout_s=TIMEOUT_S)
    running._subscribe()
    running.import_models(load_preset("rehearsal"))
    return Foreign(running=running, settings=settings, ours=ours)


@pytest.fixture(scope="module")
def foreign() -> Iterator[Foreign]:
    with quiet_rehearsal() as running:
        settings = theirs(running)
        scaled = {"spec": {"replicas": 1}}
        running.kubernetes.request("PATCH", f"{POOL}/scale", scaled, content_type="application/merge-patch+json")
        yield deployed_on(running, settings)


def test_the_pipeline_may_do_nothing_outside_its_namespace(foreign: Foreign) -> None:
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete")
    for group, resource in OUTSIDE:
        for verb in verbs:
            assert not foreign.may(PIPELINE, verb, group, resource), (verb, resource)
    for namespace in ("kube-system", "default"):
        for resource in ("pods", "configmaps", "secrets"):
            assert not any(foreign.may(PIPELINE, verb, "", resource, namespace=namespace) for verb in verbs)
    assert foreign.may(PIPELINE, "create", "batch", "jobs", namespace=names.NAMESPACE), "else nobody was asked"


def test_the_deployment_may_apply_and_delete_all_that_its_template_has(foreign: Foreign) -> None:
    template = json.loads((foreign.ours.assembly / f"{OURS}.template.json").read_text())
    objects = Templates({OURS: template}).manifests().values()
    assert len(objects) == 12
    plurals = {
        "ServiceAccount": ("", "serviceaccounts"),
        "PersistentVolumeClaim": ("", "persistentvolumeclaims"),
        "PersistentVolume": ("", "persistentvolumes"),
        "ResourceClaimTemplate": ("resource.k8s.io", "resourceclaimtemplates"),
    }
    for obj in objects:
        group, resource = plurals[obj["kind"]]
        where = {"namespace": obj["metadata"].get("namespace", ""), "name": obj["metadata"]["name"]}
        for verb in ("get", "create", "patch", "delete"):
            assert foreign.may([DEPLOYER_GROUP], verb, group, resource, **where), (verb, where)
    assert not foreign.may([DEPLOYER_GROUP], "create", "", "secrets", namespace=names.NAMESPACE)
    assert not foreign.may([DEPLOYER_GROUP], "delete", "", "persistentvolumes", name="somebody-elses")


def test_a_whole_run_on_a_node_that_is_simply_there(foreign: Foreign) -> None:
    running = foreign.running
    before = running.claims()
    run = running.start("own-cluster", {"experiment": "rehearsal", "set": SMALL})
    end = run.follow(running.progress)
    assert end.status == "SUCCEEDED", end.cause
    stored = running.services.client("s3").get_object(
        Bucket=running.bucket, Key=s3_keys.run_key(run.run_id, "report.json")
    )
    report: dict[str, Any] = json.loads(stored["Body"].read())
    assert {arm["variant"] for arm in report["arms"]} == {"base", "sd"}
    pool = running.kubernetes.request("GET", POOL)
    assert (pool["spec"]["replicas"], running.claims()) == (1, before), (
        "the node is theirs: it was neither made nor ended"
    )


def test_destroying_takes_our_objects_and_nothing_of_theirs(foreign: Foreign) -> None:
    running = foreign.running
    foreign.ours.destroy().wait(timeout_s=TIMEOUT_S)
    volumes = running.kubernetes.request("GET", "/api/v1/persistentvolumes")["items"]
    assert not [item for item in volumes if item["metadata"]["name"].startswith("specdecode")]
    assert running.kubernetes.request("GET", f"/api/v1/namespaces/{names.NAMESPACE}")["metadata"]["name"]
    assert running.kubernetes.request("GET", POOL)["spec"]["replicas"] == 1
    stacks = running.services.client("cloudformation").describe_stacks()["Stacks"]
    standing = {item["StackName"] for item in stacks if item["StackStatus"] != "DELETE_COMPLETE"}
    assert THEIRS in standing and OURS not in standing
