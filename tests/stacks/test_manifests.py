"""Every Kubernetes object in the templates, resolved, against strict schemas and the kinds' own rules."""

import pytest
from kubernetes_validate import SchemaNotFoundError, validate
from specdecode import names
from specdecode.manifests import network_policies
from specdecode.manifests.pods import on_cpu_nodes
from specdecode.planning.timeline import NODE_STOP_MINUTES

from rehearsal.kubernetes import resources, schema, schema_check, schema_values, validation
from tests.templates import Templates

pytestmark = pytest.mark.synth
KUBERNETES = "1.35"
REGISTRY = {
    (value.api_version, value.kind): value
    for value in vars(resources).values()
    if isinstance(value, resources.Resource)
}


def test_every_object_is_strictly_valid(templates: Templates) -> None:
    checked = 0
    for name, obj in templates.manifests().items():
        known = REGISTRY.get((obj["apiVersion"], obj["kind"]))
        if known is not None:
            unknown, causes = schema_check.problems(known, obj)
            assert not unknown and not causes, (name, unknown, causes)
            validation.check(None, known, schema_values.with_defaults(schema.schema_of(known), obj), None)
            checked += 1
        try:
            validate(obj, KUBERNETES, strict=True)
            checked += 1
        except SchemaNotFoundError:
            assert known is not None, f"{name}: nothing can check a {obj['kind']}"
    assert checked > 20


def test_unknown_keys_of_a_nodepool_would_be_seen(templates: Templates) -> None:
    pool = templates.manifest("NodePool", names.NODEPOOL)
    pool["spec"]["disruption"]["consolidateafter"] = "Never"
    unknown, _ = schema_check.problems(resources.NODE_POOLS, pool)
    assert unknown == ['unknown field "spec.disruption.consolidateafter"']


def test_only_the_pipeline_can_end_the_trn2_node(templates: Templates) -> None:
    spec = templates.manifest("NodePool", names.NODEPOOL)["spec"]
    assert spec["replicas"] == 0
    assert spec["limits"] == {"nodes": "1"}
    assert spec["disruption"] == {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}
    template = spec["template"]
    assert template["metadata"]["labels"] == {names.ACCELERATOR_LABEL: "trn2"}
    assert template["spec"]["expireAfter"] == "Never"
    assert template["spec"]["terminationGracePeriod"] == f"{NODE_STOP_MINUTES.high:g}m"
    assert template["spec"]["taints"] == [{"key": names.NEURON_TAINT, "value": "true", "effect": "NoSchedule"}]
    requirements = {item["key"]: item["values"] for item in template["spec"]["requirements"]}
    assert requirements["node.kubernetes.io/instance-type"] == ["trn2.48xlarge"]
    assert requirements["karpenter.sh/capacity-type"] == ["on-demand"]


@pytest.mark.parametrize("pool", names.DYNAMIC_NODEPOOLS)
def test_no_other_pending_pod_brings_up_a_node_that_costs(templates: Templates, pool: str) -> None:
    spec = templates.manifest("NodePool", pool)["spec"]["template"]["spec"]
    assert spec["taints"] == [{"key": names.DYNAMIC_TAINT, "value": "true", "effect": "NoSchedule"}]
    (tolerated,) = on_cpu_nodes(pool, makes_nodes=True)["tolerations"]
    assert (tolerated["key"], tolerated["operator"]) == (names.DYNAMIC_TAINT, "Exists")


def test_on_demand_has_a_price_or_karpenter_would_hold_it_unavailable(templates: Templates) -> None:
    overlay = templates.manifest("NodeOverlay", "trn2-price")
    assert overlay["spec"]["price"] == "35.7608"
    # Karpenter takes a price only from an overlay whose one requirement is `instance-type In` (GetOverlayPrice, v1.14).
    (requirement,) = overlay["spec"]["requirements"]
    assert (requirement["key"], requirement["operator"]) == ("node.kubernetes.io/instance-type", "In")
    gates = templates.charts()["karpenter"]["Values"]["settings"]["featureGates"]
    assert gates == {"staticCapacity": True, "reservedCapacity": True, "nodeOverlay": True}


def test_the_node_class_pins_what_may_change_under_a_run(templates: Templates) -> None:
    spec = templates.manifest("EC2NodeClass", "trn2-sdk-2-33")["spec"]
    assert spec["amiSelectorTerms"] == [{"alias": "al2023@v20260714"}]
    assert all(set(term) == {"id"} for term in spec["subnetSelectorTerms"] + spec["securityGroupSelectorTerms"])
    assert spec["metadataOptions"]["httpTokens"] == "required"
    assert spec["metadataOptions"]["httpPutResponseHopLimit"] == 1
    assert spec["instanceStorePolicy"] == "RAID0"
    assert all(volume["ebs"]["encrypted"] for volume in spec["blockDeviceMappings"])


def test_volumes_are_read_only_views_with_the_pods_own_rights(templates: Templates) -> None:
    handles = set()
    for prefix in ("models", "compiled"):
        volume = templates.manifest("PersistentVolume", names.model_pv(prefix))["spec"]
        claim = templates.manifest("PersistentVolumeClaim", names.model_pv(prefix))
        assert volume["accessModes"] == claim["spec"]["accessModes"] == ["ReadOnlyMany"]
        assert {"read-only", f"prefix {prefix}/", "region us-east-2"} <= set(volume["mountOptions"])
        attributes = volume["csi"]["volumeAttributes"]
        assert attributes["authenticationSource"] == "pod"
        assert attributes["stsRegion"] == "us-east-2"
        assert attributes["mountpointContainerResourcesRequestsCpu"]
        assert attributes["mountpointContainerResourcesRequestsMemory"]
        assert not [name for name in attributes if "Limits" in name], "a mount that is killed at a limit stays dead"
        assert {"maximum-throughput-gbps 100", "max-threads 64"} <= set(volume["mountOptions"])
        assert volume["claimRef"] == {"namespace": names.NAMESPACE, "name": claim["metadata"]["name"]}
        assert claim["spec"]["volumeName"] == names.model_pv(prefix)
        handles.add(volume["csi"]["volumeHandle"])
    assert len(handles) == 2


def test_every_service_account_has_its_own_role(templates: Templates) -> None:
    roles = {}
    for account in names.SERVICE_ACCOUNTS.values():
        obj = templates.manifest("ServiceAccount", account)
        assert obj["metadata"]["namespace"] == names.NAMESPACE
        roles[account] = obj["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
    assert len(set(roles.values())) == len(names.SERVICE_ACCOUNTS)
    assert "annotations" not in templates.manifest("ServiceAccount", names.PLAIN_ACCOUNT)["metadata"]


def test_one_object_a_resource_because_prune_is_off(templates: Templates) -> None:
    for name, properties in templates.properties("Custom::AWSCDK-EKS-KubernetesResource").items():
        assert "PruneLabel" not in properties, name
    assert len(templates.manifests()) > 20


def test_the_namespace_is_restricted(templates: Templates) -> None:
    labels = templates.manifest("Namespace", names.NAMESPACE)["metadata"]["labels"]
    assert labels == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_the_namespace_is_bounded_and_nothing_of_it_is_reached_from_outside(templates: Templates) -> None:
    hard = templates.manifest("ResourceQuota", names.NAMESPACE)["spec"]["hard"]
    assert hard["services.nodeports"] == hard["services.loadbalancers"] == "0"
    assert {"pods", "count/jobs.batch", "count/deployments.apps", "services", "secrets", "configmaps"} <= set(hard)
    (limit,) = templates.manifest("LimitRange", names.NAMESPACE)["spec"]["limits"]
    assert set(limit) == {"type", "defaultRequest"}, "with a `max` or a `default` containers would get limits"


def test_the_network_policies_are_those_of_the_command_line_and_no_others(templates: Templates) -> None:
    """Policies are additive: one more, or a wider one, would undo them."""
    applied = [obj for obj in templates.manifests().values() if obj["kind"] == "NetworkPolicy"]
    assert sorted(applied, key=lambda obj: obj["metadata"]["name"]) == sorted(
        network_policies(), key=lambda obj: obj["metadata"]["name"]
    )


def test_charts_find_the_namespaces_that_they_do_not_make(templates: Templates) -> None:
    made = {obj["metadata"]["name"] for obj in templates.manifests().values() if obj["kind"] == "Namespace"}
    assert {"neuron-dra-driver", "neuron-healthcheck-system"} <= made
    for release, chart in templates.charts().items():
        assert chart["Namespace"] in made | {"kube-system"}, release
