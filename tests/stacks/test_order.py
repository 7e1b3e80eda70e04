"""What exists before what: creation works in one pass, and deletion leaves no instance behind."""

import pytest

from tests.templates import Templates, dependencies

pytestmark = pytest.mark.synth
CLUSTER = "TrainiumClusterStack"
SPEC = "SpecDecodeStack"


class Order:
    def __init__(self, templates: Templates, stack: str) -> None:
        self.template = templates.stacks[stack]
        self.before = dependencies(self.template)

    def one(self, prefix: str, kind: str = "") -> str:
        found = [
            name
            for name, resource in self.template["Resources"].items()
            if name.startswith(prefix) and kind in resource["Type"]
        ]
        assert len(found) == 1, (prefix, kind, found)
        return found[0]

    def holds(self, first: str, then: str) -> bool:
        """`first` is created before `then`, and so deleted after it."""
        return first in self.before[then]


@pytest.fixture(scope="module")
def cluster(templates: Templates) -> Order:
    return Order(templates, CLUSTER)


@pytest.fixture(scope="module")
def spec(templates: Templates) -> Order:
    return Order(templates, SPEC)


def test_nodes_come_after_the_cni_and_dns_after_nodes(cluster: Order) -> None:
    nodes = cluster.one("EksSystemNodes", "Nodegroup")
    assert cluster.holds(cluster.one("AddonsVpcCni"), nodes)
    assert cluster.holds(cluster.one("AddonsKubeProxy"), nodes)
    assert cluster.holds(nodes, cluster.one("AddonsCoreDns"))
    assert not cluster.holds(nodes, cluster.one("AddonsVpcCni"))


def test_karpenter_has_all_that_it_needs_before_it_starts(cluster: Order) -> None:
    chart = cluster.one("KarpenterChart")
    needed = [
        cluster.one("KarpenterCrds"),
        cluster.one("EksSystemNodes", "Nodegroup"),
        cluster.one("AddonsCoreDns"),
        cluster.one("NodeAccessEntry"),
        cluster.one("InterruptionQueue", "QueuePolicy"),
        *[name for name in cluster.before if name.startswith("Karpenter") and "Policy" in name],
        *[name for name in cluster.before if name.startswith("NetworkVpcprivate") and "DefaultRoute" in name],
    ]
    assert len(needed) >= 12
    for name in needed:
        assert cluster.holds(name, chart), name


def test_pools_go_first_then_instances_then_classes_then_karpenter(cluster: Order) -> None:
    drain, chart = cluster.one("GuardsDrainGuard"), cluster.one("KarpenterChart")
    for pool in (cluster.one("TrainiumNodePool"), cluster.one("StagingNodePool")):
        assert cluster.holds(drain, pool)
    for node_class in (cluster.one("TrainiumNodeClass"), cluster.one("StagingNodeClass")):
        # Its finalizer waits for the instances, longer than kubectl's Lambda could: the guard has waited before.
        assert cluster.holds(chart, node_class)
        assert cluster.holds(node_class, drain)
    assert cluster.holds(chart, drain)
    assert cluster.holds(cluster.one("TrainiumNodeClass"), cluster.one("TrainiumNodePool"))
    assert cluster.holds(cluster.one("NeuronDraChart"), cluster.one("TrainiumNodePool"))


def test_the_guards_can_work_as_long_as_they_are_needed(cluster: Order, spec: Order) -> None:
    for order, guard in ((cluster, "DrainGuard"), (cluster, "UpdateGuard"), (spec, "TeardownGuard")):
        resource = order.one(f"Guards{guard}")
        for need in ("GuardsAccessEntry", "GuardsToApiServer", "GuardsInvokeItself", "GuardsFunction"):
            assert order.holds(order.one(need), resource), (guard, need)
    for rbac in ("GuardAccessRole", "GuardAccessBinding"):
        assert cluster.holds(cluster.one(rbac), cluster.one("GuardsDrainGuard"))
        assert cluster.holds(cluster.one(rbac), cluster.one("GuardsUpdateGuard"))


def test_the_guards_have_a_way_to_the_api_server_until_the_end(cluster: Order) -> None:
    routes = [name for name in cluster.before if name.startswith("NetworkVpcprivate") and "DefaultRoute" in name]
    assert len(routes) == 3
    for guard in ("GuardsDrainGuard", "GuardsUpdateGuard"):
        for route in routes:
            assert cluster.holds(route, cluster.one(guard)), (guard, route)


def test_an_update_passes_the_guard_before_it_touches_a_node(cluster: Order) -> None:
    update = cluster.one("GuardsUpdateGuard")
    for guarded in ("KarpenterCrds", "KarpenterChart", "NeuronDraChart", "TrainiumNodePool", "TrainiumNodeClass"):
        assert cluster.holds(update, cluster.one(guarded)), guarded


def test_the_update_guard_watches_what_it_guards(cluster: Order) -> None:
    watched = str(cluster.template["Resources"][cluster.one("GuardsUpdateGuard")]["Properties"]["Watched"])
    for part in ("EC2NodeClass", "'kind': 'NodePool'", "featureGates", "draDriver", "1.14.1", "1.10.0"):
        assert part in watched, part


def test_the_teardown_goes_before_the_pipeline_and_its_watchdog(spec: Order) -> None:
    teardown = spec.one("GuardsTeardownGuard")
    kinds = ("AWS::StepFunctions::StateMachine", "AWS::Events::Rule", "AWS::Lambda::Function", "AWS::EKS::AccessEntry")
    pipeline = [
        name
        for name, resource in spec.template["Resources"].items()
        if name.startswith("Pipeline") and resource["Type"] in kinds
    ]
    assert len(pipeline) > 20
    for name in pipeline:
        assert spec.holds(name, teardown), name
    assert spec.holds(spec.one("WorkspaceNamespace"), teardown)
    assert spec.holds(spec.one("PipelineAccessPipelineClusterRoleBinding"), teardown)


def test_all_in_the_namespace_comes_after_it(spec: Order, templates: Templates) -> None:
    namespace = spec.one("WorkspaceNamespace")
    inside = [
        name.partition("/")[2]
        for name, obj in templates.manifests().items()
        if name.startswith(SPEC) and "namespace" in obj["metadata"]
    ]
    assert len(inside) > 8
    for name in inside:
        assert spec.holds(namespace, name), name


def test_log_groups_exist_before_the_agents_would_make_them(cluster: Order) -> None:
    addon = cluster.one("ObservabilityAddon")
    for name in ("Application", "Dataplane", "Host", "Performance"):
        assert cluster.holds(cluster.one(f"Observability{name}"), addon)
    assert cluster.holds(cluster.one("EksLogs"), cluster.one("EksCluster", "AWS::EKS::Cluster"))


def test_no_stack_depends_on_spec_decode(templates: Templates) -> None:
    assert "Fn::ImportValue" not in str(templates.stacks[CLUSTER])
