"""The pipeline in the template: least privilege, exactly the Kubernetes verbs used, alarms that cannot sleep."""

import json
import re
from datetime import timedelta
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest
from specdecode import names
from specdecode.experiment import load_preset, preset_names
from specdecode.kubernetes.resources import RESOURCES

from constructs_lib.cluster.access import (
    END_NODES,
    READ_CLUSTER,
    READ_NAMESPACE,
    READER_GROUP,
    RENEW_SESSIONS,
    WATCHDOG_GROUP,
    WRITE_NAMESPACE,
    scale_pools,
)
from constructs_lib.pipeline.functions import FUNCTIONS
from constructs_lib.pipeline.watchdog import POOL
from constructs_lib.settings.fields import Settings
from tests.plans import PRICED, plan_for

pytestmark = pytest.mark.synth
TASKS = Path(__file__).resolve().parents[2] / "lambda" / "specdecode" / "steps"


@pytest.fixture(scope="module")
def resources(assembly):
    return {
        logical: resource
        for logical, resource in assembly.raw("SpecDecodeStack")["Resources"].items()
        if logical.startswith("Pipeline")
    }


def of_type(resources, kind):
    return {logical: resource["Properties"] for logical, resource in resources.items() if resource["Type"] == kind}


def functions(resources):
    """Step name -> properties of its Lambda."""
    by_handler = {spec.module: name for name, spec in FUNCTIONS.items()}
    return {
        by_handler[properties["Handler"].split(".")[2]]: properties
        for properties in of_type(resources, "AWS::Lambda::Function").values()
    }


def test_every_step_is_a_traced_python_3_11_function_with_its_own_role_and_logs(resources):
    found = functions(resources)
    assert set(found) == set(FUNCTIONS)
    assert len({json.dumps(properties["Role"]) for properties in found.values()}) == len(FUNCTIONS)
    assert len({json.dumps(properties["LoggingConfig"]) for properties in found.values()}) == len(FUNCTIONS)
    for name, properties in found.items():
        assert properties["Runtime"] == "python3.11"
        assert properties["Architectures"] == ["x86_64"]
        assert properties["TracingConfig"] == {"Mode": "Active"}
        assert ("VpcConfig" in properties) == FUNCTIONS[name].kubernetes
    assert len({json.dumps(properties["Code"]) for properties in found.values()}) == 1


def test_each_handler_exists():
    for spec in FUNCTIONS.values():
        handler = import_module(f"specdecode.steps.{spec.module}").handler
        assert list(signature(handler).parameters) == ["event", "context"]


def test_the_environment_holds_what_the_code_reads(resources):
    code = "\n".join(path.read_text() for path in [*TASKS.glob("*.py"), *(TASKS.parent / "kubernetes").glob("*.py")])
    read = set(re.findall(r'environ\["(\w+)"\]', code)) - {"AWS_REGION"}
    given = {key for properties in functions(resources).values() for key in properties["Environment"]["Variables"]}
    assert read == given


def test_each_function_in_the_cluster_has_an_access_entry_and_lookers_cannot_write(resources):
    entries = of_type(resources, "AWS::EKS::AccessEntry")
    assert len(entries) == sum(spec.kubernetes for spec in FUNCTIONS.values())
    for logical, entry in entries.items():
        writes = not re.search("Inspect|Diagnose", logical)
        gives_sessions = re.search("StageModels|Compile|Smoke|Benchmark|Accuracy", logical)
        ends_nodes = [WATCHDOG_GROUP] if "Watchdog" in logical else []
        assert entry["KubernetesGroups"] == [
            READER_GROUP,
            *([names.PIPELINE_GROUP] if writes else []),
            *([names.SESSIONS_GROUP] if gives_sessions else []),
            *ends_nodes,
        ]
        assert "AccessPolicies" not in entry


def granted():
    """(plural or plural/subresource, verb) that the groups have together."""
    return {
        (resource, verb)
        for rules in (READ_CLUSTER, READ_NAMESPACE, scale_pools(1), WRITE_NAMESPACE, RENEW_SESSIONS, END_NODES)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_rbac_grants_no_wildcard_and_scales_the_pools_of_runs_only():
    assert not [pair for pair in granted() if "*" in pair[0] or "*" in pair[1]]
    assert scale_pools(1)[0]["resourceNames"] == ["trn2", "cpu", "cpu-large"]
    assert scale_pools(3)[0]["resourceNames"] == ["trn2", "trn2-2", "trn2-3", "cpu", "cpu-large"]
    for rule in (*READ_CLUSTER, *READ_NAMESPACE, *scale_pools(1), *WRITE_NAMESPACE, *RENEW_SESSIONS, *END_NODES):
        groups = {resource.api_version.rpartition("/")[0].split("/")[0] for resource in RESOURCES.values()}
        assert set(rule["apiGroups"]) <= groups | {""}


def test_rbac_is_what_a_run_needs_and_nothing_more():
    """Every verb used by a whole run, its failure, the watchdog and the inspection, against every verb granted."""
    from specdecode.kubernetes.pools import why_no_node
    from specdecode.steps import inspect, release, watchdog
    from specdecode.steps.errors import ServeNotReady

    from tests.specdecode.steps.world import World

    world = World()
    world.run_through()
    release.release(world.given("run-1"), world.rt)
    world.run_through("run-2", until="Serve")
    inspect.cluster_view(world.given("inspect"), world.rt)
    why_no_node(world.rt.kube, world.cluster.all("NodePool")[0], since=world.time, now=world.time)  # no claim has come
    world.clean_up(ServeNotReady("GET /api/v1/x: 403 pods is forbidden: User me cannot list"), "run-2")
    world.cluster.put({"kind": "NodeClaim", "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "trn2"}}})
    world.time += timedelta(hours=1)
    assert watchdog.watch(world.given("watchdog"), world.rt).deleted == ("c",)
    used = set()
    for method, path in world.cluster.requests:
        kind, _, name, sub = world.cluster._route(path)
        resource = RESOURCES[kind].plural + (f"/{sub}" if sub else "")
        look, write = ["get"] if name else ["list"], ["patch"] if sub else ["patch", "create"]
        verbs = {"GET": look, "DELETE": ["delete"], "PATCH": write, "POST": ["create"], "PUT": ["update"]}[method]
        used |= {(resource, verb) for verb in verbs}
    used |= {("pods/log", "get")}  # logs are read of containers that have run
    assert used == {(resource, verb) for resource, verb in granted()}


def test_a_silent_watchdog_is_an_alarm(resources):
    alarms = {alarm.get("MetricName"): alarm for alarm in of_type(resources, "AWS::CloudWatch::Alarm").values()}
    assert alarms["WatchdogHeartbeat"]["TreatMissingData"] == "breaching"
    assert alarms["WatchdogHeartbeat"]["ComparisonOperator"] == "LessThanThreshold"
    assert alarms["NodesWithoutLease"]["ComparisonOperator"] == "GreaterThanThreshold"
    assert (alarms["LeaseAge"]["Threshold"], alarms["LeaseAge"]["Statistic"]) == (48 * 3600, "Maximum")
    assert all(alarm["AlarmActions"] for alarm in alarms.values())


def test_alarms_and_dashboard_watch_exactly_what_the_watchdog_publishes(resources):
    """Name, namespace and dimensions: an alarm on a metric that nobody sends sleeps for ever."""
    from specdecode.steps import watchdog

    from constructs_lib.observability.dashboard_body import body
    from tests.specdecode.steps.world import World

    world = World()
    world.rt.environ["OPERATIONS_NAMESPACE"] = names.OPERATIONS_NAMESPACE
    watchdog.watch(world.given("watchdog"), world.rt)
    sent = {(datum["Namespace"], datum["MetricName"]) for datum in world.cloudwatch.data if "Dimensions" not in datum}
    of_pools = {datum["MetricName"] for datum in world.cloudwatch.data if "Dimensions" in datum}
    assert of_pools == {"LeaseAge", "NodesWithoutLease"}, "what the backstop reads, and each costs"
    alarms = of_type(resources, "AWS::CloudWatch::Alarm").values()
    plain = [alarm for alarm in alarms if "MetricName" in alarm and not alarm.get("Dimensions")]
    assert {(alarm["Namespace"], alarm["MetricName"]) for alarm in plain} < sent
    of_pool = [alarm for alarm in alarms if alarm.get("Dimensions")]
    assert [(alarm["MetricName"], alarm["Dimensions"]) for alarm in of_pool] == [
        ("NodesWithoutLease", [{"Name": POOL, "Value": pool}]) for pool in names.held_pools(1)
    ]
    of_one = [alarm["AlarmDescription"] for alarm in of_pool]
    assert ["The pool trn2 has" in text for text in of_one] == [True, False, False], "it says which"
    shown = {
        (metric[0], metric[1])
        for widget in body(
            region="r",
            cluster_name="c",
            state_machine_arn="m",
            operations_namespace=names.OPERATIONS_NAMESPACE,
            log_group="l",
            node_price=1.0,
            alarm_arns=[],
        )["widgets"]
        for metric in widget["properties"].get("metrics", [])
        if metric[0] == names.OPERATIONS_NAMESPACE
    }
    assert shown == sent


def test_every_alarm_of_the_watchdog_says_what_to_do(resources):
    for alarm in of_type(resources, "AWS::CloudWatch::Alarm").values():
        assert re.search(r"Runbook: .*`specdecode .*More: docs/operations\.md#when-it-fails", alarm["AlarmDescription"])


def test_a_node_may_drain_before_it_counts_as_running_without_a_lease(resources, assembly):
    alarms = {alarm.get("MetricName"): alarm for alarm in of_type(resources, "AWS::CloudWatch::Alarm").values()}
    patience = alarms["NodesWithoutLease"]["EvaluationPeriods"] * alarms["NodesWithoutLease"]["Period"]
    grace = re.findall(r"terminationGracePeriod\W+(\d+)m", json.dumps(assembly.raw("TrainiumClusterStack")))
    assert {int(minutes) * 60 < patience for minutes in grace} == {True}


@pytest.mark.parametrize("preset", preset_names())
def test_no_preset_is_expected_to_hold_the_node_long_enough_for_the_alarm(preset):
    plan = plan_for(load_preset(preset), capacity=PRICED)
    assert plan.node_hours.high < Settings().longest_run_hours


def test_the_watchdog_runs_on_a_schedule_and_at_every_bad_end(resources):
    rules = list(of_type(resources, "AWS::Events::Rule").values())
    assert {rule.get("ScheduleExpression") for rule in rules} == {"rate(5 minutes)", None}
    (pattern,) = [rule["EventPattern"] for rule in rules if "EventPattern" in rule]
    assert pattern["source"] == ["aws.states"]
    assert pattern["detail"]["status"] == ["FAILED", "TIMED_OUT", "ABORTED"]
    assert len(pattern["detail"]["stateMachineArn"]) == 1


def test_no_alarm_and_no_widget_counts_a_look_of_a_step_that_waits_as_an_error(assembly):
    """Such a look ends with an exception: Lambda's own metrics, Step Functions' of tasks, and logs have it as one."""
    resources = {**assembly.raw("TrainiumClusterStack")["Resources"], **assembly.raw("SpecDecodeStack")["Resources"]}
    kinds = {kind: of_type(resources, kind) for kind in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard")}
    assert all(kinds.values()) and not of_type(resources, "AWS::Logs::MetricFilter")
    for logical, properties in {name: item for each in kinds.values() for name, item in each.items()}.items():
        text = json.dumps(properties)
        assert not re.search(r"(Lambda|Task|Service|Activit)\w*(Fail|TimedOut|Error)", text), logical
        assert "AWS/Lambda" not in text or logical.startswith("Backstop"), "it is no step"
