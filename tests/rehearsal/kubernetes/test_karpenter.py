"""Capacity: the static pool, claims on its node, and the traps of ending it."""

import copy
import time
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import NODE_CLASS, claim_template, neuron_pod, pod, static_pool, wait_for

POOLS = "/apis/karpenter.sh/v1/nodepools"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
KARPENTER = {
    "settings": {"clusterName": "c", "featureGates": {"staticCapacity": True}},
    "controller": {"resources": {"requests": {"cpu": "1"}}},
}


def install(double: Double, *, gate: Any = True, neuron: bool = True) -> None:
    double.helm("karpenter-crd", "1.14.1")
    values = copy.deepcopy(KARPENTER)
    values["settings"]["featureGates"]["staticCapacity"] = gate
    double.helm("karpenter", "1.14.1", **values)
    if neuron:
        for name in ("neuron-dra-driver", "neuron-healthcheck-system"):
            double.namespace(name)
        parts = {"draDriver": {"enabled": True}, "devicePlugin": {"enabled": False}, "npd": {"enabled": False}}
        double.helm("neuron-helm-chart", "1.10.0", namespace="neuron-dra-driver", **parts)
    double.ok("POST", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", NODE_CLASS)


def scale(double: Double, replicas: int) -> None:
    body = {"spec": {"replicas": replicas}}
    double.ok("PATCH", f"{POOLS}/trn2/scale", body, kind="application/merge-patch+json")


def nodes(double: Double) -> list[Any]:
    listed = double.get("/api/v1/nodes?labelSelector=karpenter.sh/nodepool")
    return list(listed["items"])


def running(double: Double) -> list[Any]:
    return [i for i in double.control("instances")["instances"] if not i["terminated"]]


@pytest.fixture
def capacity(fresh: Double) -> Double:
    """A double with Karpenter, the DRA driver and a trn2 node."""
    install(fresh)
    fresh.ok("POST", POOLS, static_pool())
    scale(fresh, 1)
    fresh.wait("/apis/resource.k8s.io/v1/resourceslices", lambda s: s["items"])
    fresh.namespace("apps")
    for devices in (8, 16):
        fresh.ok("POST", "/apis/resource.k8s.io/v1/namespaces/apps/resourceclaimtemplates", claim_template(devices))
    return fresh


def phase(double: Double, name: str, wanted: str) -> Any:
    return double.wait(
        f"/api/v1/namespaces/apps/pods/{name}", lambda p: p and p.get("status", {}).get("phase") == wanted
    )


def test_kinds_are_unknown_before_their_chart(fresh: Double) -> None:
    assert fresh.request("GET", POOLS)[0] == 404


def test_two_pods_on_a_group_each_and_no_room_for_a_third(capacity: Double) -> None:
    for name in ("base", "sd", "third"):
        capacity.ok("POST", "/api/v1/namespaces/apps/pods", neuron_pod(name))
    phase(capacity, "base", "Running")
    phase(capacity, "sd", "Running")
    claims = capacity.get("/apis/resource.k8s.io/v1/namespaces/apps/resourceclaims")["items"]
    devices = {
        claim["metadata"]["ownerReferences"][0]["name"]: {
            d["device"] for d in claim["status"]["allocation"]["devices"]["results"]
        }
        for claim in claims
        if "allocation" in claim.get("status", {})
    }
    assert set(devices) == {"base", "sd"}
    numbers = sorted(sorted(int(d.rsplit("-", 1)[1]) for d in found) for found in devices.values())
    assert numbers == [list(range(8)), list(range(8, 16))]
    third = capacity.wait("/api/v1/namespaces/apps/pods/third", lambda p: "conditions" in p.get("status", {}))
    assert third["status"]["conditions"][0]["reason"] == "Unschedulable"
    assert (
        "cannot allocate all claims" in capacity.events("apps", "FailedScheduling")[-1]
        or "Insufficient cpu" in third["status"]["conditions"][0]["message"]
    )


def test_claims_live_as_long_as_their_pods(capacity: Double, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    capacity.run(neuron_pod("a", devices=16, script=wait_for(flag)), "Running")
    capacity.ok("POST", "/api/v1/namespaces/apps/pods", neuron_pod("b", devices=16))
    waiting = capacity.wait("/api/v1/namespaces/apps/pods/b", lambda p: "conditions" in p.get("status", {}))
    assert "1 cannot allocate all claims" in waiting["status"]["conditions"][0]["message"]
    flag.touch()
    phase(capacity, "a", "Succeeded")
    phase(capacity, "b", "Running")
    capacity.ok("DELETE", "/api/v1/namespaces/apps/pods/b")
    capacity.wait("/apis/resource.k8s.io/v1/namespaces/apps/resourceclaims", lambda c: not c["items"])


def test_a_named_claim_outlives_its_pods_and_is_freed(capacity: Double) -> None:
    claims = "/apis/resource.k8s.io/v1/namespaces/apps/resourceclaims"
    spec = claim_template(8)["spec"]["spec"]
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "mine"}, "spec": spec}
    capacity.ok("POST", claims, claim)
    body = neuron_pod("a")
    body["spec"]["resourceClaims"] = [{"name": "neuron", "resourceClaimName": "mine"}]
    capacity.run(body, "Running")
    assert len(capacity.get(f"{claims}/mine")["status"]["allocation"]["devices"]["results"]) == 8
    capacity.ok("DELETE", "/api/v1/namespaces/apps/pods/a")
    capacity.wait(f"{claims}/mine", lambda c: not c.get("status"))


def test_scaling_to_zero_drains_and_ends_the_instance(capacity: Double) -> None:
    capacity.run(neuron_pod("a"), "Running")
    scale(capacity, 0)
    capacity.wait(CLAIMS, lambda c: not c["items"])
    assert nodes(capacity) == [] and running(capacity) == []
    capacity.wait("/api/v1/namespaces/apps/pods/a", lambda p: p is None)
    capacity.wait("/apis/resource.k8s.io/v1/resourceslices", lambda s: not s["items"])


def test_applying_the_manifest_again_resets_the_replicas(capacity: Double) -> None:
    assert capacity.get(f"{POOLS}/trn2/scale")["status"]["replicas"] == 1
    path = f"{POOLS}/trn2?fieldManager=cdk"
    kind = "application/apply-patch+yaml"
    assert capacity.request("PATCH", path, static_pool(), kind=kind)[0] == 409
    applied = capacity.ok("PATCH", f"{path}&force=true", static_pool(), kind=kind)
    assert applied["spec"]["replicas"] == 0
    capacity.wait(CLAIMS, lambda c: not c["items"])


def test_drain_waits_for_a_pod_that_must_not_be_disrupted(capacity: Double) -> None:
    capacity.run(neuron_pod("a", annotations={"karpenter.sh/do-not-disrupt": "true"}), "Running")
    scale(capacity, 0)
    capacity.wait(
        "/api/v1/namespaces/default/events", lambda e: any(i["reason"] == "FailedDraining" for i in e["items"])
    )
    assert len(running(capacity)) == 1
    phase(capacity, "a", "Running")


def test_drain_ends_with_the_grace_period(fresh: Double) -> None:
    install(fresh, neuron=False)
    fresh.ok("POST", POOLS, static_pool(terminationGracePeriod="3s", taints=[]))
    scale(fresh, 1)
    fresh.wait("/api/v1/nodes", lambda n: len(n["items"]) == 3)
    fresh.namespace("apps")
    blocked = pod(
        "a",
        "exec sleep 600",
        nodeSelector={"specdecode/accelerator": "trn2"},
        annotations={"karpenter.sh/do-not-disrupt": "true"},
    )
    fresh.run(blocked, "Running")
    scale(fresh, 0)
    fresh.wait(CLAIMS, lambda c: not c["items"])
    assert running(fresh) == []


def test_a_pool_that_is_deleted_takes_its_node_along_only_while_karpenter_runs(capacity: Double) -> None:
    capacity.run(neuron_pod("a", annotations={"karpenter.sh/do-not-disrupt": "true"}), "Running")
    capacity.ok("DELETE", f"{POOLS}/trn2")
    assert capacity.request("GET", f"{POOLS}/trn2")[0] == 404, "a NodePool has no finalizer"
    capacity.control("helm", request="Delete", release="karpenter", namespace="kube-system", chart="karpenter")
    claims = capacity.wait(CLAIMS, lambda c: "deletionTimestamp" in c["items"][0]["metadata"])
    assert claims["items"][0]["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    time.sleep(1.5)
    assert [i["leaked"] for i in running(capacity)] == [True]


def test_without_capacity_the_nodeclaim_is_deleted_and_tried_again(fresh: Double) -> None:
    install(fresh, neuron=False)
    fresh.control("faults", no_capacity=True)
    fresh.ok("POST", POOLS, static_pool())
    scale(fresh, 1)
    events = fresh.wait(
        "/api/v1/namespaces/default/events",
        lambda e: len([i for i in e["items"] if i["reason"] == "InsufficientCapacityError"]) > 1,
    )
    event = next(i for i in events["items"] if i["reason"] == "InsufficientCapacityError")
    assert event["involvedObject"]["kind"] == "NodeClaim" and "InsufficientInstanceCapacity" in event["message"]
    fresh.control("faults", no_capacity=False)
    fresh.wait("/api/v1/nodes", lambda n: len(n["items"]) == 3)


def test_without_the_gate_a_static_pool_is_ignored(fresh: Double) -> None:
    install(fresh, gate="false", neuron=False)
    fresh.ok("POST", POOLS, static_pool())
    scale(fresh, 1)
    time.sleep(1.0)
    assert fresh.get(CLAIMS)["items"] == []


def test_a_vanished_node_takes_its_pods_along(capacity: Double) -> None:
    capacity.run(neuron_pod("a"), "Running")
    capacity.control("vanish", node=nodes(capacity)[0]["metadata"]["name"])
    capacity.wait("/api/v1/namespaces/apps/pods/a", lambda p: p is None)
    capacity.wait("/apis/resource.k8s.io/v1/namespaces/apps/resourceclaims", lambda c: not c["items"])


def test_a_claim_with_a_misspelt_parameter_never_starts(capacity: Double) -> None:
    template = claim_template(8)
    template["metadata"]["name"] = "trn2-8dev-wrong"
    template["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"] = {
        "apiVersion": "neuron.aws.com/v1",
        "kind": "NeuronConfig",
        "logicalNeuronCores": 2,
    }
    capacity.ok("POST", "/apis/resource.k8s.io/v1/namespaces/apps/resourceclaimtemplates", template)
    wrong = neuron_pod("a")
    wrong["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "trn2-8dev-wrong"
    capacity.ok("POST", "/api/v1/namespaces/apps/pods", wrong)
    capacity.wait(
        "/api/v1/namespaces/apps/events", lambda e: any("strict decoding error" in i["message"] for i in e["items"])
    )
    assert phase(capacity, "a", "Pending")


def test_a_dynamic_pool_launches_for_a_pending_pod_and_ends_the_empty_node(fresh: Double) -> None:
    install(fresh, neuron=False)
    requirements = [
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["m"]},
        {"key": "karpenter.k8s.aws/instance-local-nvme", "operator": "Gt", "values": ["400"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    pool = static_pool()
    pool["metadata"]["name"] = "staging"
    pool["spec"] = {
        "limits": {"cpu": "64"},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        "template": {
            "spec": {"nodeClassRef": pool["spec"]["template"]["spec"]["nodeClassRef"], "requirements": requirements}
        },
    }
    fresh.ok("POST", POOLS, pool)
    fresh.namespace("apps")
    resources = {"requests": {"cpu": "10", "ephemeral-storage": "100Gi"}}
    chosen = {"karpenter.sh/nodepool": "staging"}
    done = fresh.run(pod("stage", "echo staged", container={"resources": resources}, nodeSelector=chosen))
    assert done["spec"]["nodeName"] not in [None, ""]
    assert [i["instance_type"] for i in running(fresh)] == ["m6id.4xlarge"]
    merge = "application/merge-patch+json"
    fresh.ok("PATCH", f"{POOLS}/staging", {"spec": {"disruption": {"consolidateAfter": "1s"}}}, kind=merge)
    fresh.wait(CLAIMS, lambda c: not c["items"])
    assert running(fresh) == []
