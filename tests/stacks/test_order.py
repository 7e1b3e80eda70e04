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


def test_log_groups_have_their_retention_before_the_agents_write(cluster: Order) -> None:
    kept = cluster.one("GuardsLogRetention")
    assert cluster.holds(kept, cluster.one("ObservabilityAddon"))
    assert cluster.holds(cluster.one("GuardsKeepLogs"), kept)


def test_a_deployment_passes_only_with_pools_that_are_ready(cluster: Order) -> None:
    ready = cluster.one("GuardsReadyGuard")
    for name in ("TrainiumNodePool", "TrainiumNodeClass", "StagingNodePool", "StagingNodeClass", "GuardAccessBinding"):
        assert cluster.holds(cluster.one(name), ready), name


def test_the_watchdog_beats_once_before_its_alarm_exists(spec: Order) -> None:
    beat = spec.one("GuardsFirstHeartbeat")
    for name, kind in (
        ("PipelineWatchdogFunction", "Lambda"),
        ("PipelineWatchdogRoleDefaultPolicy", ""),
        ("PipelineAccessWatchdogEntry", ""),
        ("PipelineAccessPipelineClusterRoleBinding", ""),
        ("GuardsRunWatchdog", ""),
    ):
        assert spec.holds(spec.one(name, kind), beat), name
    assert spec.holds(beat, spec.one("PipelineWatchdogScheduleNoHeartbeat"))


def test_code_changes_after_the_guard_has_let_it_through(spec: Order) -> None:
    update = spec.one("GuardsUpdateGuard")
    assert spec.template["Resources"][update]["Properties"]["Watched"] == {"bundle": "0" * 64, "nodes": 1, "claims": ""}
    guarded = [
        name
        for name, resource in spec.template["Resources"].items()
        if (name.startswith("Pipeline") and resource["Type"] in ("AWS::Lambda::Function", "AWS::IAM::Policy"))
        or (name.startswith("ServiceAccounts") and resource["Type"] == "AWS::IAM::Policy")
    ]
    assert len(guarded) > 30
    for name in guarded:
        assert spec.holds(update, name), name


@pytest.mark.parametrize("stack", [CLUSTER, SPEC])
def test_nothing_is_made_or_changed_before_the_settings_are_let_through(templates: Templates, stack: str) -> None:
    """A cluster takes a quarter of an hour, and costs."""
    order = Order(templates, stack)
    guard = order.one("SettingsSettingsGuard")
    assert {name for name in order.before if not order.holds(guard, name)} == {guard, *order.before[guard]}
    kinds = {"LogGroup": 1, "Role": 1, "Policy": 1, "Function": 1}
    found = [order.template["Resources"][name]["Type"].rpartition("::")[2] for name in order.before[guard]]
    assert {kind: found.count(kind) for kind in found} == kinds


@pytest.mark.parametrize("stack", [CLUSTER, SPEC])
def test_at_most_four_custom_resources_are_made_at_once(templates: Templates, stack: str) -> None:
    """Two functions run for one, and a new account has ten at once. The most is a largest set of which none waits for
    another: by Dilworth's theorem, their number less that of a largest matching of each with one that comes after it.
    """
    before = dependencies(templates.stacks[stack])
    resources = templates.stacks[stack]["Resources"]
    custom = [name for name, resource in resources.items() if resource["Type"].startswith("Custom::")]
    assert len(custom) > 12
    follower: dict[str, str] = {}

    def matched(first: str, tried: set[str]) -> bool:
        for then in custom:
            if first in before[then] and then not in tried:
                tried.add(then)
                if then not in follower or matched(follower[then], tried):
                    follower[then] = first
                    return True
        return False

    pairs = sum(matched(name, set()) for name in custom)
    assert len(custom) - pairs <= 4
    assert not [name for name in custom if name in before[name]], "a circle"


def test_no_stack_depends_on_spec_decode(templates: Templates) -> None:
    assert "Fn::ImportValue" not in str(templates.stacks[CLUSTER])
