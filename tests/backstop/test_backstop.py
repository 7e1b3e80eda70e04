"""The backstop: what it ends, what it never touches, and that nothing that fails keeps it from the rest."""

from __future__ import annotations

import ast
import importlib
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from specdecode import giving_back

from tests.specdecode.steps.aws_fake import client_error

FOLDER = Path(__file__).resolve().parents[2] / "lambda" / "backstop"
sys.path.append(str(FOLDER))  # as Lambda does
backstop, judging, services = (importlib.import_module(name) for name in ("backstop", "judging", "services"))

NOW = datetime(2026, 11, 22, 3, tzinfo=UTC)
WINDOW = timedelta(minutes=giving_back.BACKSTOP_WINDOW_MINUTES)
HOLDING = timedelta(hours=60)
EXECUTION = timedelta(hours=108)
LIMITS = judging.Limits(window=WINDOW, holding=HOLDING, execution=EXECUTION, compiler=timedelta(hours=25))
NO_LAUNCH = "arn:aws:iam::1:policy/no-launch-"
POOL = {"kubernetes.io/cluster/specdecode": "owned", "karpenter.sh/nodepool": "trn2"}
OLD, YOUNG = timedelta(hours=5), timedelta(minutes=29)
LOOKS = 6
"""Of the watchdog in the window."""


POOLS = ("trn2", "trn2-2", "cpu")
MANY = ("trn2", *(f"trn2-{number}" for number in range(2, 17)), "cpu")


def tags_of(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


class Aws:
    """The five services as far as the backstop asks them; `denied` operations fail."""

    def __init__(self) -> None:
        self.instances: dict[str, dict[str, Any]] = {}
        self.metrics: dict[str, list[float]] = {}
        self.of_pool: dict[str, dict[str, list[float]]] = {}
        """Pool -> its own metrics, where they differ from those of all others."""
        self.executions: list[datetime] = []
        self.attached: set[str] = {"arn:another"}
        self.told: list[tuple[str, str]] = []
        self.denied: set[str] = set()
        self.full: set[str] = set()
        """Keys of policies that the role does not take."""
        self.calls: list[str] = []
        self.sizes: list[tuple[str, str, dict[str, int]]] = []

    def client(self, service: str) -> Any:
        return SimpleNamespace(**{name: self._checked(name) for name in OPERATIONS[service]}, get_paginator=self.pages)

    def _checked(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            self.calls.append(name)
            if name in self.denied:
                raise client_error("AccessDenied", name, 403)
            return getattr(self, name)(**given)

        return call

    def pages(self, name: str) -> Any:
        return SimpleNamespace(paginate=lambda **given: [self._checked(name)(**given)])

    def instance(self, name: str, age: timedelta, *, state: str = "running", **tags: str) -> None:
        self.instances[name] = {"tags": {**POOL, **tags}, "state": state, "launched": NOW - age}

    def describe_instances(self, *, Filters: list[dict[str, Any]]) -> dict[str, Any]:
        wanted = {item["Name"]: item["Values"] for item in Filters}
        states = wanted.pop("instance-state-name")
        found = [
            {"InstanceId": name, "LaunchTime": held["launched"], "Tags": tags_of(held["tags"])}
            for name, held in self.instances.items()
            if held["state"] in states
            and all(held["tags"].get(key.removeprefix("tag:")) in values for key, values in wanted.items())
        ]
        return {"Reservations": [{"Instances": [item]} for item in found]}

    def terminate_instances(self, *, InstanceIds: list[str]) -> dict[str, Any]:
        for name in InstanceIds:
            tags = self.instances[name]["tags"]
            assert tags == GROUP or tags["kubernetes.io/cluster/specdecode"] == "owned"
            assert tags == GROUP or tags["karpenter.sh/nodepool"] in (*MANY, "compile")
            self.instances[name]["state"] = "shutting-down"
        return {"TerminatingInstances": InstanceIds}

    def update_nodegroup_config(self, *, clusterName: str, nodegroupName: str, scalingConfig: dict[str, int]) -> None:
        self.sizes.append((clusterName, nodegroupName, scalingConfig))

    def get_metric_statistics(self, **given: Any) -> dict[str, Any]:
        (statistic,) = given["Statistics"]
        assert (given["Namespace"], given["EndTime"] - given["StartTime"], given["Period"]) == ("N", WINDOW, 300)
        (pool,) = [item["Value"] for item in given["Dimensions"]] or [""]
        values = self.of_pool.get(pool, self.metrics).get(given["MetricName"], [])
        return {"Datapoints": [{statistic: value, "Timestamp": number} for number, value in enumerate(values)]}

    def list_executions(self, *, stateMachineArn: str, statusFilter: str) -> dict[str, Any]:
        assert (stateMachineArn, statusFilter) == ("machine", "RUNNING")
        return {"executions": [{"startDate": begun} for begun in self.executions]}

    def list_attached_role_policies(self, *, RoleName: str) -> dict[str, Any]:
        assert RoleName == "karpenter"
        return {"AttachedPolicies": [{"PolicyArn": arn} for arn in self.attached]}

    def attach_role_policy(self, *, RoleName: str, PolicyArn: str) -> None:
        assert RoleName == "karpenter" and PolicyArn.startswith(NO_LAUNCH)
        if PolicyArn.removeprefix(NO_LAUNCH) in self.full:
            raise client_error("LimitExceeded", "AttachRolePolicy", 409)
        self.attached.add(PolicyArn)
        assert len(self.attached) <= 1 + 5, "a role takes ten, and Karpenter's has five"

    def detach_role_policy(self, *, RoleName: str, PolicyArn: str) -> None:
        assert RoleName == "karpenter"
        self.attached.remove(PolicyArn)

    def publish(self, *, TopicArn: str, Subject: str, Message: str) -> None:
        assert TopicArn == "topic" and len(Subject) < 100
        self.told.append((Subject, Message))

    # --- situations

    def beats(self, *, without_lease: float = 0, lease_age: float = 0) -> None:
        self.metrics = {
            "WatchdogHeartbeat": [1.0] * LOOKS,
            "NodesWithoutLease": [without_lease] * LOOKS,
            "LeaseAge": [lease_age] * LOOKS,
        }

    @property
    def closed(self) -> set[str]:
        """Keys of the policies that Karpenter's role has."""
        return {arn.removeprefix(NO_LAUNCH) for arn in self.attached if arn.startswith(NO_LAUNCH)}

    @property
    def alive(self) -> list[str]:
        return sorted(name for name, held in self.instances.items() if held["state"] in services.ALIVE)


OPERATIONS = {
    "ec2": ["terminate_instances"],
    "cloudwatch": ["get_metric_statistics"],
    "stepfunctions": [],
    "iam": ["attach_role_policy", "detach_role_policy"],
    "sns": ["publish"],
    "eks": ["update_nodegroup_config"],
}


def look(
    aws: Aws,
    *,
    later: timedelta = timedelta(),
    pools: tuple[str, ...] = POOLS,
    without: tuple[str, ...] = (),
    **more: str,
) -> dict[str, Any]:
    keys = [*pools, "all"] if len(pools) > backstop.APART else pools
    environ = {
        "CLUSTER_NAME": "specdecode",
        "NAMESPACE": "N",
        "STATE_MACHINE_ARN": "machine",
        "TOPIC_ARN": "topic",
        "KARPENTER_ROLE": "karpenter",
        "NODEPOOLS": ",".join(pools),
        "NO_LAUNCH_POLICIES": ",".join(f"{key}={NO_LAUNCH}{key}" for key in keys),
        "WINDOW_MINUTES": str(giving_back.BACKSTOP_WINDOW_MINUTES),
        "HOLDING_HOURS": str(int(HOLDING.total_seconds() // 3600)),
        "COMPILE_NODEPOOL": "compile",
        "COMPILER_HOURS": "25",
        "EXECUTION_HOURS": str(int(EXECUTION.total_seconds() // 3600)),
        "RUNBOOK": "docs/operations.md",
    }
    given = {key: value for key, value in environ.items() if key not in without}
    return backstop.Backstop(given | more, aws.client, NOW + later).look()


@pytest.fixture
def aws() -> Aws:
    """One old instance of the pool, nobody who watches, nothing that runs."""
    made = Aws()
    made.instance("i-old", OLD)
    return made


def test_nobody_watches_and_nothing_runs(aws):
    found = look(aws)
    assert found["ended"] == ["i-old"] and aws.alive == []
    assert aws.closed
    ((subject, text),) = aws.told
    assert "ended an instance" in subject
    assert "i-old" in text and "the watchdog has not worked for 30 min, and no run goes on" in text
    assert "specdecode capacity" in text and "docs/operations.md" in text


def test_a_forgotten_node_without_devices_is_ended_too_and_staging_nodes_are_not(aws):
    aws.instance("i-cpu", OLD, **{"karpenter.sh/nodepool": "cpu"})
    aws.instance("i-staging", OLD, **{"karpenter.sh/nodepool": "staging"})
    assert sorted(look(aws)["ended"]) == ["i-cpu", "i-old"]
    assert aws.alive == ["i-staging"]


def test_an_instance_that_compiles_for_no_execution_is_ended_and_karpenter_may_go_on(aws):
    aws.instances.clear()
    aws.instance("i-compiles", OLD, **{"karpenter.sh/nodepool": "compile"})
    assert look(aws)["ended"] == ["i-compiles"]
    assert not aws.closed
    ((_, text),) = aws.told
    assert "it compiles for no run that goes on" in text and "Karpenter may launch" not in text


def test_an_instance_that_compiles_for_an_execution_is_left_alone_until_it_is_too_old(aws):
    aws.instances.clear()
    aws.executions = [NOW - timedelta(hours=30)]
    aws.instance("i-compiles", timedelta(hours=24), **{"karpenter.sh/nodepool": "compile"})
    assert look(aws)["ended"] == []
    assert look(aws, later=timedelta(hours=2))["ended"] == ["i-compiles"]


def test_a_young_instance_that_compiles_is_left_to_karpenter(aws):
    aws.instances.clear()
    aws.instance("i-compiles", YOUNG, **{"karpenter.sh/nodepool": "compile"})
    assert look(aws)["ended"] == []


def test_looking_again_changes_nothing_and_tells_nobody_twice(aws):
    look(aws)
    before = aws.told.copy()
    assert look(aws)["ended"] == []
    assert aws.told == before and aws.closed


def test_launching_is_denied_before_the_instance_is_ended(aws):
    look(aws)
    assert aws.calls.index("attach_role_policy") < aws.calls.index("terminate_instances")


@pytest.mark.parametrize(
    "tags", [{"karpenter.sh/nodepool": "staging"}, {"kubernetes.io/cluster/specdecode": "shared"}], ids=str
)
def test_instances_of_others_are_never_touched(aws, tags):
    aws.instance("i-other", OLD, **tags)
    look(aws)
    assert aws.alive == ["i-other"]


def test_an_instance_that_is_going_is_left_to_go(aws):
    aws.instance("i-going", OLD, state="shutting-down")
    assert look(aws)["ended"] == ["i-old"]


def test_a_young_instance_is_left_alone_unless_it_replaces_one_that_was_ended(aws):
    aws.instances.clear()
    aws.instance("i-young", YOUNG)
    assert look(aws)["ended"] == [] and not aws.closed
    aws.instance("i-old", OLD)
    look(aws)
    assert aws.alive == ["i-young"]
    assert look(aws)["ended"] == ["i-young"], "launched before the denial took effect"


@pytest.mark.parametrize("age", [timedelta(minutes=1), timedelta(hours=47), EXECUTION])
@pytest.mark.parametrize("beats", [True, False])
def test_a_healthy_run_is_never_touched(aws, beats, age):
    if beats:
        aws.beats(lease_age=HOLDING.total_seconds())
    aws.executions = [NOW - age]
    assert look(aws)["ended"] == [] and not aws.closed
    assert aws.told == []


@pytest.mark.parametrize(("age", "ended"), [(OLD, []), (HOLDING + timedelta(minutes=1), ["i-old"])])
def test_a_second_node_is_ended_when_no_run_can_have_held_it_so_long(aws, age, ended):
    aws.instance("i-old", age)
    aws.beats(without_lease=1, lease_age=3600)
    aws.executions = [NOW - timedelta(hours=1)]
    assert look(aws)["ended"] == ended


@pytest.mark.parametrize(("age", "ended"), [(OLD, []), (HOLDING + timedelta(minutes=1), ["i-old"])])
@pytest.mark.parametrize("beats", [[], [1.0], [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]], ids=["silent", "once", "now and then"])
def test_runs_that_follow_each_other_protect_an_instance_only_as_long_as_one_may_hold_it(aws, beats, age, ended):
    aws.instance("i-old", age)
    aws.metrics = {"WatchdogHeartbeat": beats}
    aws.executions = [NOW - timedelta(hours=1)]
    assert look(aws)["ended"] == ended


def test_one_look_that_fails_is_no_silence(aws):
    aws.beats(lease_age=3600)
    aws.metrics["WatchdogHeartbeat"] = [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    aws.instance("i-old", HOLDING + timedelta(hours=1))
    aws.executions = [NOW]
    assert look(aws)["ended"] == []


@pytest.mark.parametrize("counted", [0, 1], ids=["unknown to Kubernetes", "known"])
def test_an_instance_that_nobody_holds_is_ended_though_other_runs_wait(aws, counted):
    aws.beats(without_lease=counted)
    aws.executions = [NOW - timedelta(hours=1)]
    assert "no run has held the node" in look(aws)["why"]
    assert aws.alive == []


def test_while_nothing_is_there_nothing_is_done_and_karpenter_is_open_again(aws):
    aws.beats(without_lease=1)
    look(aws)
    assert aws.closed
    aws.beats()
    assert look(aws)["ended"] == [] and not aws.closed
    told = aws.told.copy()
    assert look(aws) == {"instances": [], "ended": [], "why": None, "closed": [], "problems": []}
    assert aws.told == told


@pytest.mark.parametrize("ages", [[0, 0, 0, 0, 0, 60], [0, 0, 0, 0]], ids=["held now", "not long enough"])
def test_a_node_that_somebody_held_in_the_window_is_the_watchdog_s(aws, ages):
    aws.beats()
    aws.metrics["LeaseAge"] = ages
    assert look(aws)["ended"] == []


def test_a_stuck_run_s_instance_is_ended(aws):
    aws.beats(lease_age=HOLDING.total_seconds() + 1)
    aws.executions = [NOW - timedelta(hours=61)]
    assert "held the node for longer than 60 h" in look(aws)["why"]
    assert aws.alive == [] and aws.closed
    assert look(aws)["closed"], "it would be launched again for the run that is stuck"


def test_a_run_that_has_held_the_node_since_a_time_to_come_is_stuck(aws):
    aws.beats(lease_age=-300_000_000)
    aws.executions = [NOW - timedelta(hours=61)]
    assert look(aws)["ended"] == ["i-old"]


@pytest.mark.parametrize(
    ("age", "why"),
    [(HOLDING.total_seconds() + 1, "longer than 60 h"), (-300_000_000, "longer than 60 h"), (0, "no run has held")],
)
def test_only_the_instance_of_the_pool_in_question_is_ended_and_never_another_run_s(aws, age, why):
    aws.beats(lease_age=age)
    aws.of_pool["trn2-2"] = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [3600.0] * LOOKS}
    aws.instance("i-healthy", EXECUTION, **{"karpenter.sh/nodepool": "trn2-2"})
    aws.executions = [NOW - timedelta(hours=61), NOW - timedelta(hours=2)]
    assert why in look(aws)["why"]
    assert aws.alive == ["i-healthy"]
    assert look(aws)["ended"] == [], "closed or not: the other run's instance stays"


def test_a_young_instance_of_another_pool_is_left_alone_though_karpenter_is_closed_for_a_stuck_run(aws):
    aws.beats()
    aws.of_pool["trn2"] = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [HOLDING.total_seconds() + 1] * LOOKS}
    look(aws)
    aws.instance("i-new", timedelta(minutes=2), **{"karpenter.sh/nodepool": "trn2-2"})
    assert look(aws)["ended"] == [], "the watchdog has not looked since that run got its node"
    assert aws.closed == {"trn2"}, "another run may have its node launched"
    aws.instance("i-again", timedelta(minutes=2))
    assert look(aws)["ended"] == ["i-again"], "launched for the stuck run"
    aws.of_pool.clear()
    look(aws)
    assert not aws.closed


def test_a_pool_stays_closed_while_an_instance_of_it_is_left_that_nobody_holds(aws):
    aws.beats()
    look(aws)
    assert aws.closed == {"trn2"}
    aws.instance("i-new", timedelta(minutes=2))
    look(aws)
    assert aws.closed == {"trn2"}
    aws.instances["i-new"]["state"] = "terminated"
    look(aws)
    assert not aws.closed


def of_pools(aws: Aws, *pools: str) -> None:
    for pool in pools:
        aws.instance(f"i-{pool}", OLD, **{"karpenter.sh/nodepool": pool})


def test_several_pools_are_closed_one_by_one_and_opened_one_by_one(aws):
    aws.beats(lease_age=3600)
    stuck = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [HOLDING.total_seconds() + 1] * LOOKS}
    aws.of_pool = {"trn2": stuck, "trn2-7": stuck}
    of_pools(aws, "trn2-7", "trn2-8")
    assert look(aws, pools=MANY)["closed"] == ["trn2", "trn2-7"] and aws.closed == {"trn2", "trn2-7"}
    assert aws.alive == ["i-trn2-8"]
    assert "no instance of trn2, trn2-7 until" in aws.told[-1][1]
    del aws.of_pool["trn2"]
    look(aws, pools=MANY)
    assert aws.closed == {"trn2-7"} and aws.told[-1][1].endswith("may launch trn2 again.")


def test_more_pools_than_a_role_takes_policies_are_closed_together_and_opened_apart(aws):
    aws.beats(lease_age=3600)
    stuck = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [HOLDING.total_seconds() + 1] * LOOKS}
    in_question = MANY[:5]
    aws.of_pool = dict.fromkeys(in_question, stuck)
    of_pools(aws, *in_question)
    found = look(aws, pools=MANY)
    assert aws.closed == {"all"} and found["closed"] == sorted(MANY) and aws.alive == []
    told = list(aws.told)
    assert look(aws, pools=MANY)["closed"] == sorted(MANY) and aws.told == told
    aws.of_pool = {"trn2-2": stuck}
    look(aws, pools=MANY)
    assert aws.closed == {"trn2-2"}
    assert "trn2-16" in aws.told[-1][1] and "trn2-2," not in aws.told[-1][1]


def test_where_nobody_watches_all_of_many_pools_are_closed_by_one_policy(aws):
    of_pools(aws, *MANY)
    look(aws, pools=MANY)
    assert aws.closed == {"all"} and aws.alive == []


def test_a_policy_that_the_role_does_not_take_opens_nothing_and_is_an_alarm(aws):
    aws.beats(lease_age=3600)
    stuck = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [HOLDING.total_seconds() + 1] * LOOKS}
    aws.of_pool = dict.fromkeys(MANY[:4], stuck)
    of_pools(aws, *MANY[:4])
    look(aws, pools=MANY)
    aws.of_pool, aws.full = {"trn2-2": stuck, "trn2-3": stuck}, {"trn2-2"}
    with pytest.raises(RuntimeError, match=r"kept from launching \(trn2-2\): .*LimitExceeded"):
        look(aws, pools=MANY)
    assert aws.closed == {"all", "trn2-3"}


def test_while_nobody_watches_all_pools_are_in_question(aws):
    aws.instance("i-second", OLD, **{"karpenter.sh/nodepool": "trn2-2"})
    assert sorted(look(aws)["ended"]) == ["i-old", "i-second"]


def test_the_run_after_a_stuck_one_keeps_its_node(aws):
    aws.beats()
    aws.metrics["LeaseAge"] = [HOLDING.total_seconds() + 600, 100.0, 400.0, 700.0, 1000.0, 1300.0]
    aws.executions = [NOW - timedelta(minutes=25)]
    assert look(aws)["ended"] == []


def test_executions_older_than_any_run_protect_nothing_when_nobody_watches(aws):
    aws.executions = [NOW - EXECUTION - timedelta(seconds=1)]
    assert "older than 108 h" in look(aws)["why"]


def test_it_lets_nodes_be_launched_again_when_the_watchdog_beats_and_says_so(aws):
    look(aws)
    aws.executions = [NOW]
    look(aws)
    assert aws.closed, "a run alone is no sign that somebody watches"
    aws.beats()
    assert look(aws)["ended"] == []
    assert not aws.closed and aws.attached == {"arn:another"}
    assert "again" in aws.told[-1][0]


@pytest.mark.parametrize(
    ("denied", "ended"),
    [
        ("get_metric_statistics", True),
        ("list_attached_role_policies", True),
        ("attach_role_policy", True),
        ("publish", True),
        ("terminate_instances", False),
    ],
)
def test_what_fails_keeps_nothing_else_and_is_an_alarm(aws, denied, ended):
    aws.denied = {denied}
    with pytest.raises(RuntimeError, match="AccessDenied"):
        look(aws)
    assert (aws.alive == []) is ended
    assert "terminate_instances" in aws.calls and "publish" in aws.calls
    if denied == "terminate_instances":
        ((subject, text),) = aws.told
        assert "CANNOT end" in subject
        assert "has ended nothing" in text and "It must end i-old and CANNOT" in text
        assert "This could not be done: i-old cannot be ended" in text


def test_without_metrics_a_run_that_goes_on_still_protects_its_node(aws):
    aws.denied, aws.executions = {"get_metric_statistics"}, [NOW]
    with pytest.raises(RuntimeError):
        look(aws)
    assert aws.alive == ["i-old"]


@pytest.mark.parametrize(("age", "ended"), [(OLD, False), (EXECUTION + timedelta(hours=1), True)])
def test_without_step_functions_only_what_no_run_can_need_is_ended(aws, age, ended):
    aws.instance("i-old", age)
    aws.denied = {"list_executions"}
    with pytest.raises(RuntimeError):
        look(aws)
    assert (aws.alive == []) is ended


FOREIGN = ("KARPENTER_ROLE", "NO_LAUNCH_POLICIES", "COMPILE_NODEPOOL")
"""What it is not told where Karpenter is somebody else's."""


def test_in_somebody_elses_karpenter_it_ends_each_that_is_launched_again_and_touches_no_role(aws):
    aws.instance("i-compiles", OLD, **{"karpenter.sh/nodepool": "compile"})
    found = look(aws, without=FOREIGN)
    assert (found["ended"], found["closed"], found["problems"]) == (["i-old"], [], [])
    aws.instance("i-again", YOUNG)
    assert look(aws, without=FOREIGN)["ended"] == []
    assert look(aws, without=FOREIGN, later=timedelta(minutes=10))["ended"] == ["i-again"]
    assert not [call for call in aws.calls if "role" in call] and aws.alive == ["i-compiles"]
    ((_, text), _) = aws.told
    assert "kubectl scale nodepool NAME --replicas=0` for trn2,trn2-2,cpu" in text and "may launch no" not in text


GROUP = {"eks:cluster-name": "specdecode", "eks:nodegroup-name": "trainium"}


@pytest.mark.parametrize("denied", [set(), {"update_nodegroup_config"}], ids=["", "eks refuses"])
def test_a_node_group_is_set_to_0_before_its_instance_is_ended(aws, denied):
    aws.instance("i-group", OLD)
    aws.instances["i-group"]["tags"] = GROUP
    aws.denied = denied
    given = {"NODE_GROUP": "trainium"}
    if denied:
        with pytest.raises(RuntimeError, match="the node group cannot be set to 0"):
            look(aws, pools=("trainium",), without=FOREIGN, **given)
    else:
        assert look(aws, pools=("trainium",), without=FOREIGN, **given)["ended"] == ["i-group"]
        assert aws.sizes == [("specdecode", "trainium", {"desiredSize": 0})]
    assert aws.calls.index("update_nodegroup_config") < aws.calls.index("terminate_instances")
    assert aws.alive == ["i-old"], "Karpenter's are none of its"
    ((_, text),) = aws.told
    assert "The node group trainium is set to 0" in text


def test_without_ec2_it_fails(aws):
    aws.denied = {"describe_instances"}
    with pytest.raises(Exception, match="AccessDenied"):
        look(aws)


def test_it_imports_nothing_that_it_could_share():
    files = sorted(FOLDER.glob("*.py"))
    imported = {
        name
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    own = {file.stem for file in files}
    assert {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) - own == {"boto3", "botocore"}


def test_it_looks_as_often_as_the_watchdog_counts():
    assert giving_back.WATCHDOG_PERIOD_MINUTES * 60 == judging.PERIOD_S
    assert giving_back.BACKSTOP_WINDOW_MINUTES == 2 * giving_back.CLAIM_GRACE_MINUTES


def test_silence_is_silence_however_short_the_window():
    limits = judging.Limits(window=timedelta(seconds=6), holding=HOLDING, execution=EXECUTION, compiler=HOLDING)
    found = judging.judge(judging.Watched(), (), now=NOW, limits=limits)
    assert "no run goes on" in found.why
