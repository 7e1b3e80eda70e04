"""Karpenter's kinds, if the server has them: a static pool, its scale, and what the CRDs refuse. All are dry runs but
one pool. Without Karpenter nothing acts on that pool.
"""

import copy
from typing import Any

import pytest
from specdecode import names

from constructs_lib.cluster.access import scale_pools
from tests.conformance.server import Json, Server, made_up_name
from tests.conformance.test_contract import PIPELINE, RBAC
from tests.rehearsal.kubernetes.manifests import NODE_CLASS, static_pool

POOLS = "/apis/karpenter.sh/v1/nodepools"
CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
DRY = "?dryRun=All&fieldValidation=Strict"
MERGE = {"Content_Type": "application/merge-patch+json"}
GONE = object()


@pytest.fixture(scope="module", autouse=True)
def crds(server: Server) -> None:
    if server.is_double:
        chart = {"release": "crd", "namespace": "kube-system", "chart": "karpenter-crd", "version": "1.14.1"}
        server.ok("POST", "/_rehearsal/helm", {"request": "Create", **chart})
    elif server.request("GET", POOLS)[0] == 404:
        pytest.skip("the server has no karpenter.sh/v1: install the chart karpenter-crd 1.14.1")


def pool(path: str = "", value: Any = None) -> Json:
    """The static pool with one thing changed."""
    body = copy.deepcopy(static_pool())
    body["metadata"]["name"] = made_up_name()
    parent: Any = body
    *parents, last = path.split(".")
    for step in parents:
        parent = parent[int(step) if step.isdecimal() else step]
    if path and value is GONE:
        del parent[last]
    elif path:
        parent[last] = value
    return body


def test_a_pool_and_a_class_as_the_product_makes_them_are_taken(server: Server) -> None:
    node_class = {**NODE_CLASS, "metadata": {"name": made_up_name()}}
    assert server.request("POST", POOLS + DRY, pool())[0] == 201
    assert server.request("POST", CLASSES + DRY, node_class)[0] == 201


REFUSED = [
    ("spec.frobnicate", 1, 400),
    ("spec.replicas", "one", 422),
    ("spec.replicas", -1, 422),
    ("spec.limits", {"cpu": "1"}, 422),
    ("spec.weight", 5, 422),
    ("spec.disruption.consolidateAfter", GONE, 422),
    ("spec.disruption.consolidateAfter", "soon", 422),
    ("spec.disruption.budgets", [{"nodes": "many"}], 422),
    ("spec.disruption.budgets", [{"nodes": "0", "reasons": ["Bored"]}], 422),
    ("spec.template.spec.expireAfter", "later", 422),
    ("spec.template.spec.nodeClassRef", GONE, 422),
    ("spec.template.spec.nodeClassRef.kind", "", 422),
    ("spec.template.spec.terminationGracePeriod", "1 hour", 422),
    ("spec.template.spec.taints", [{"key": "a"}], 422),
    ("spec.template.spec.requirements.0.operator", "Is", 422),
    ("spec.template.spec.requirements.0.values", [], 422),
    ("spec.template.spec.requirements.0.key", "karpenter.sh/nodepool", 422),
    ("spec.template.metadata.labels", {"karpenter.sh/nodepool": "a"}, 422),
]


@pytest.mark.parametrize(("path", "value", "code"), REFUSED)
def test_what_the_crds_refuse(server: Server, path: str, value: Any, code: int) -> None:
    status, answer = server.request("POST", POOLS + DRY, pool(path, value))
    assert status == code, answer


def test_the_pipeline_scales_its_pools_and_no_other(server: Server) -> None:
    """The rule names the product's pools. Here it names a pool with a made-up name."""
    name = made_up_name()
    (rule,) = scale_pools(1)
    assert rule["resourceNames"] == [*names.held_pools(1)]
    server.make(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [{**rule, "resourceNames": [name]}]})
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": names.PIPELINE_GROUP}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [group]}
    server.make(f"{RBAC}/clusterrolebindings", binding)
    for made in (name, other := made_up_name()):
        server.make(POOLS, {**pool(), "metadata": {"name": made}})
    one = {"spec": {"replicas": 1}}
    server.wait(lambda: server.request("PATCH", f"{POOLS}/{name}/scale", one, **MERGE, **PIPELINE)[0] == 200)
    assert server.ok("GET", f"{POOLS}/{name}/scale")["spec"]["replicas"] == 1
    assert server.ok("GET", f"{POOLS}/{name}")["spec"]["replicas"] == 1
    assert server.request("PATCH", f"{POOLS}/{other}/scale", one, **MERGE, **PIPELINE)[0] == 403
    assert server.request("PATCH", f"{POOLS}/{name}", one, **MERGE, **PIPELINE)[0] == 403
