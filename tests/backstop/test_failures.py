"""The backstop when something fails, or when Karpenter is not ours: it does the rest, and says what it could not do."""

import ast
import sys
from datetime import timedelta

import pytest
from specdecode import giving_back

from tests.backstop.aws import EXECUTION, FOLDER, GROUP, HOLDING, NOW, OLD, YOUNG, judging, look


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


@pytest.mark.parametrize("denied", ["get_metric_statistics", "list_executions"])
@pytest.mark.parametrize(
    ("age", "ended"), [(OLD, False), (HOLDING + timedelta(hours=1), False), (EXECUTION + timedelta(hours=1), True)]
)
def test_without_cloudwatch_or_step_functions_only_what_no_run_can_need_is_ended(aws, denied, age, ended):
    """A queue hands its node from run to run: the instance is older than any of them may hold it."""
    aws.instance("i-old", age)
    if denied == "get_metric_statistics":
        aws.beats(lease_age=3600)
    aws.denied, aws.executions = {denied}, [NOW - timedelta(hours=2)]
    with pytest.raises(RuntimeError):
        look(aws)
    assert (aws.alive == [], bool(aws.closed), len(aws.told)) == (ended, ended, ended)


@pytest.mark.parametrize("began", [(), (EXECUTION + timedelta(hours=1),)], ids=["none goes on", "a stuck one"])
def test_without_cloudwatch_an_instance_that_no_run_can_need_is_ended_and_nobody_is_accused(aws, began):
    aws.denied, aws.executions = {"get_metric_statistics"}, [NOW - age for age in began]
    with pytest.raises(RuntimeError):
        look(aws)
    assert aws.alive == []
    ((_, text),) = aws.told
    assert "since the watchdog's metrics cannot be read, and " in text and "has not worked" not in text


@pytest.mark.parametrize("pool", ["staging", "compile"])
@pytest.mark.parametrize(("age", "left"), [(OLD, ["i-works"]), (timedelta(hours=26), [])])
def test_without_step_functions_an_instance_that_stages_or_compiles_is_taken_to_be_in_use(aws, pool, age, left):
    aws.instances.clear()
    aws.instance("i-works", age, **{"karpenter.sh/nodepool": pool})
    aws.denied = {"list_executions"}
    with pytest.raises(RuntimeError, match="the executions cannot be listed"):
        look(aws)
    assert aws.alive == left


FOREIGN = ("KARPENTER_ROLE", "NO_LAUNCH_POLICIES", "DYNAMIC_NODEPOOLS")
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
    limits = judging.Limits(window=timedelta(seconds=6), holding=HOLDING, execution=EXECUTION, dynamic=HOLDING)
    found = judging.judge(judging.Watched(), (), ages=(), now=NOW, limits=limits)
    assert "no run goes on" in found.why
