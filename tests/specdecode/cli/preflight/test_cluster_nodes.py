"""The nodes of a cluster of yours: what keeps our NodePools from working in its Karpenter, and a run from scaling its
node group. Each with what to do.
"""

import json
from typing import Any

import pytest
from specdecode import names
from specdecode.cli.preflight import cluster, cluster_nodes
from specdecode.cli.preflight.check import Check
from specdecode.experiment.shapes import CPU

from constructs_lib.settings.reading import SettingsError, read_settings
from tests.specdecode.cli.preflight.aws import ACCOUNT, FACTS, error, verdicts
from tests.specdecode.cli.preflight.test_cluster import GIVEN, TRN2, Shell, described, world

ROLE = "TheirNodes"
HOST = GIVEN.model_copy(update={"node_role": ROLE})
FACTS_THERE = FACTS.model_copy(update={"existing": HOST, "nodes": 2})
GATES = "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=true,StaticCapacity=true"
POOLS = tuple(names.node_pool(slot, foreign=True) for slot in names.held_pools(2))


def deployment(image: str = "public.ecr.aws/karpenter/controller:1.14.1@sha256:0", gates: str = GATES) -> dict:
    container = {"image": image, "env": [{"name": "FEATURE_GATES", "value": gates}]}
    metadata = {"namespace": "platform", "labels": {"app.kubernetes.io/instance": "theirs"}}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": [container]}}}}


def pool(name: str, *, label: str = "specdecode", ready: str = "True") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "message": "NodeClassReady=False"}]
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": label}},
        "status": {"conditions": conditions},
    }


def definition(*properties: str, **subresources: Any) -> dict[str, Any]:
    schema = {"properties": {"spec": {"properties": {key: {} for key in properties}}}}
    return {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}, "subresources": subresources}]}}


def inside(**answers: Any) -> dict[str, Check]:
    given = {
        "deployments": json.dumps({"items": [deployment()]}),
        "crd": json.dumps(definition("replicas", scale={})),
        "nodepools.karpenter.sh": json.dumps({"items": [pool(name) for name in (*POOLS, "theirs")]}),
    } | answers
    ask = world().ask(cluster="theirs", existing=HOST, nodes=2)
    return {check.name: check for check in cluster.inside(ask, TRN2, ask_kubectl=Shell(**given))}


def test_a_karpenter_that_has_everything():
    found = inside()
    assert set(verdicts(found.values()).values()) == {"ok"}
    assert {"Karpenter", "Karpenter's CRDs", "NodePools"} < set(found) and "node" not in found


def said(*items: Any) -> dict[str, str]:
    return {"deployments": json.dumps({"items": items})}


def ours(*items: Any) -> dict[str, str]:
    return {"nodepools.karpenter.sh": json.dumps({"items": items})}


@pytest.mark.parametrize(
    ("answers", "name", "verdict", "words"),
    [
        (said(), "Karpenter", "fail", "label nodes of yours"),
        (said(deployment("karpenter:v1.7.2")), "Karpenter", "fail", "upgrade"),
        (said(deployment("karpenter:1.8.0")), "Karpenter", "fail", "upgrading"),
        (said(deployment("karpenter:1.8.1", gates="")), "Karpenter", "fail",
         "-n platform --version 1.8.1 --reuse-values --set"),
        (said(deployment("karpenter:latest")), "Karpenter", "warn", "1.8.1"),
        (said(deployment(gates="")), "Karpenter", "fail",
         "staticCapacity=true --set settings.featureGates.nodeOverlay=true"),
        (said(deployment(gates=GATES.replace("Overlay=true", "Overlay=false"))), "Karpenter", "fail",
         "featureGates.nodeOverlay=true"),
        ({"crd": ""}, "Karpenter's CRDs", "fail", "karpenter-crd"),
        ({"crd": json.dumps(definition("template", status={}))}, "Karpenter's CRDs", "fail", "karpenter-crd"),
        ({"crd": json.dumps(definition("replicas"))}, "Karpenter's CRDs", "fail", "karpenter-crd"),
        (ours(pool(POOLS[0]), *map(pool, POOLS[2:])), "NodePools", "fail", "administrator_objects"),
        (ours(pool(POOLS[0]), pool(POOLS[1], label="x"), *map(pool, POOLS[2:])), "NodePools", "fail", "rename"),
        (ours(*(pool(name, ready="False") for name in POOLS)), "NodePools", "fail", "ec2nodeclasses"),
    ],
)  # fmt: skip
def test_what_keeps_our_node_pools_from_working(answers, name, verdict, words):
    check = inside(**answers)[name]
    assert (check.verdict, words in check.fix) == (verdict, True), check
    assert name != "NodePools" or "specdecode-trn2-2" in check.detail or "NodeClassReady=False" in check.detail


def test_a_reservation_needs_its_own_gate_and_no_price():
    reserved = FACTS_THERE.model_copy(update={"reservation": "cr-1"})
    assert (
        cluster_nodes.controller(reserved, [deployment(gates="ReservedCapacity=true,StaticCapacity=true")]).verdict
        == "ok"
    )
    check = cluster_nodes.controller(reserved, [deployment(gates="ReservedCapacity=false,StaticCapacity=true")])
    assert "featureGates.reservedCapacity=true" in check.fix


ARN = f"arn:aws:iam::{ACCOUNT}:role/{ROLE}"


def of_eks(**answers: Any) -> dict[str, Check]:
    role = {"Path": "/", "RoleName": ROLE, "RoleId": "AROA0123456789012345", "CreateDate": "2026-01-01T00:00:00Z"}
    known = {"GetRole": {"Role": role | {"Arn": ARN}}, "DescribeAccessEntry": {"accessEntry": {"type": "EC2_LINUX"}}}
    ask = world(**known | answers).ask(cluster="theirs", existing=HOST, vpc="vpc-1")
    return {check.name: check for check in cluster.of_eks(ask)}


NO_ENTRY = {"DescribeAccessEntry": error("ResourceNotFoundException")}


def test_its_node_role():
    assert set(verdicts(of_eks().values()).values()) == {"ok"}


@pytest.mark.parametrize(
    ("answers", "verdict", "words"),
    [
        ({"GetRole": error("NoSuchEntity")}, "fail", "there is no role"),
        (NO_ENTRY, "warn", "aws-auth"),
        (NO_ENTRY | described(accessConfig={"authenticationMode": "API"}), "fail", "no access entry"),
        ({"DescribeAccessEntry": {"accessEntry": {"type": "STANDARD"}}}, "fail", "no node could join"),
    ],
)
def test_a_role_whose_nodes_would_not_join(answers, verdict, words):
    check = of_eks(**answers)["node role"]
    assert (check.verdict, words in check.detail) == (verdict, True), check
    assert "ec2nodeclasses" in check.fix


def test_nodes_are_made_for_the_clusters_own_version():
    check = of_eks(**described(version="1.34"))["cluster"]
    assert check.verdict == "fail" and "configure kubernetes_version=1.34`" in check.fix


def test_a_version_without_amis_has_a_way_out():
    """Not the way back into `kubernetes_version`, which the settings refuse; and they say the same way out."""
    check = of_eks(**described(version="1.36"))["cluster"]
    assert check.verdict == "fail" and "AMIs are pinned for 1.34 and 1.35 only" in check.detail
    assert "kubernetes_version" not in check.fix and "existing_node_group=NAME" in check.fix
    with pytest.raises(SettingsError, match=r"take a node group of it instead \(existing_node_group\)"):
        read_settings({"kubernetes_version": "1.36", "existing_cluster": "theirs"})


THEIRS = GIVEN.model_copy(update={"node_group": "trainium"})
TAINT = {"key": "aws.amazon.com/neuron", "value": "true", "effect": "NO_SCHEDULE"}


def group(*, size: tuple[int, int, int] = (0, 1, 0), **changes: Any) -> dict[str, Any]:
    known = {
        "nodegroupName": "trainium",
        "status": "ACTIVE",
        "capacityType": "ON_DEMAND",
        "scalingConfig": dict(zip(("minSize", "maxSize", "desiredSize"), size, strict=True)),
        "instanceTypes": ["trn2.48xlarge"],
        "labels": {"specdecode/accelerator": "trn2", "team": "ml"},
        "taints": [TAINT],
        "health": {"issues": []},
    }
    return {"nodegroup": known | changes}


def of_group(answer: Any, *, deployed: bool = False) -> list[Check]:
    ask = world(DescribeNodegroup=answer).ask(cluster="theirs", existing=THEIRS, vpc="vpc-1", deployed=deployed)
    return [check for check in cluster.of_eks(ask) if check.name == "node group"]


def test_a_group_that_will_do():
    (check,) = of_group(group())
    assert check.verdict == "ok"
    assert [c.verdict for c in of_group(group(size=(0, 1, 1)), deployed=True)] == ["ok"], "a run holds it"
    assert [c.verdict for c in of_group(group(instanceTypes=[]))] == ["ok"], "its launch template has the type"


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (error("ResourceNotFoundException"), "fail", "list-nodegroups --cluster-name theirs"),
        (group(status="DEGRADED"), "fail", "health"),
        (group(size=(1, 1, 1)), "fail", "minSize=0,maxSize=1,desiredSize=0"),
        (group(size=(0, 3, 0)), "fail", "minSize=0,maxSize=1"),
        (group(size=(0, 1, 1)), "warn", "desiredSize=0"),
        (group(capacityType="SPOT"), "fail", "ON_DEMAND"),
        (group(instanceTypes=["m7i.large"]), "fail", "trn2.48xlarge"),
        (group(labels={}), "fail", "addOrUpdateLabels={specdecode/accelerator=trn2}"),
        (group(taints=[]), "fail", "addOrUpdateTaints"),
        (group(taints=[TAINT | {"effect": "PREFER_NO_SCHEDULE"}]), "fail", "addOrUpdateTaints"),
        (group(taints=[TAINT, TAINT | {"key": "team"}]), "fail", "aws.amazon.com/neuron alone"),
        (group(health={"issues": [{"code": "AsgInstanceLaunchFailures", "message": "x"}]}), "warn", "keep the node"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_group(answer, verdict, words):
    (check,) = of_group(answer)
    assert (check.verdict, words in check.fix) == (verdict, True), check


def test_a_label_is_asked_of_the_group_and_for_a_check_of_the_account_of_a_node():
    ask = world().ask(cluster="theirs", existing=THEIRS)
    assert "node" not in verdicts(cluster.inside(ask, TRN2, ask_kubectl=Shell()))
    assert verdicts(cluster.inside(ask, CPU, ask_kubectl=Shell()))["node"] == "warn"
