"""The backstop: what it ends, what it never touches, and that nothing that fails keeps it from the rest."""

from datetime import timedelta

import pytest

from tests.backstop.aws import EXECUTION, HOLDING, NOW, OLD, YOUNG, look


def test_nobody_watches_and_nothing_runs(aws):
    found = look(aws)
    assert found["ended"] == ["i-old"] and aws.alive == []
    assert aws.closed
    ((subject, text),) = aws.told
    assert "ended an instance" in subject
    assert "i-old" in text and "the watchdog has not worked for 30 min, and no run goes on" in text
    assert "specdecode capacity" in text and "docs/operations.md" in text


def test_a_forgotten_node_without_devices_is_ended_too(aws):
    aws.instance("i-cpu", OLD, **{"karpenter.sh/nodepool": "cpu"})
    assert sorted(look(aws)["ended"]) == ["i-cpu", "i-old"]


@pytest.mark.parametrize("pool", ["staging", "compile"])
def test_an_instance_that_stages_or_compiles_for_no_execution_is_ended_and_karpenter_may_go_on(aws, pool):
    aws.instances.clear()
    aws.instance("i-works", OLD, **{"karpenter.sh/nodepool": pool})
    assert look(aws)["ended"] == ["i-works"]
    assert not aws.closed
    ((_, text),) = aws.told
    assert "it stages or compiles for no run that goes on" in text and "Karpenter may launch" not in text


@pytest.mark.parametrize("pool", ["staging", "compile"])
def test_an_instance_that_stages_or_compiles_for_an_execution_is_left_alone_until_it_is_too_old(aws, pool):
    aws.instances.clear()
    aws.executions = [NOW - timedelta(hours=30)]
    aws.instance("i-works", timedelta(hours=24), **{"karpenter.sh/nodepool": pool})
    assert look(aws)["ended"] == []
    assert look(aws, later=timedelta(hours=2))["ended"] == ["i-works"]


@pytest.mark.parametrize("pool", ["staging", "compile"])
def test_a_young_instance_that_stages_or_compiles_is_left_to_karpenter(aws, pool):
    aws.instances.clear()
    aws.instance("i-works", YOUNG, **{"karpenter.sh/nodepool": pool})
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
    "tags", [{"karpenter.sh/nodepool": "default"}, {"kubernetes.io/cluster/specdecode": "shared"}], ids=str
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


def test_an_instance_that_kubernetes_does_not_know_is_ended_though_runs_follow_each_other(aws):
    """The watchdog counts NodeClaims, and works."""
    aws.instances.clear()
    aws.instance("i-orphan", timedelta(hours=2))
    aws.instance("i-node", timedelta(hours=-1))
    for later in map(timedelta, range(1, 4)):
        aws.beats(lease_age=3600)
        aws.executions = [NOW + later - timedelta(hours=1)]
        look(aws, later=later)
        assert len(aws.alive) == 2 or later >= HOLDING - timedelta(hours=2)
    assert "i-orphan" not in aws.alive and "the pool has had 2 instances" in str(aws.told[0])
    aws.instance("i-next", timedelta())
    assert look(aws, later=timedelta(days=30))["ended"] == [], "alone it is a node that runs hand to each other"
    aws.instance("i-second", timedelta(minutes=29) - timedelta(days=30))
    assert look(aws, later=timedelta(days=30))["ended"] == [], "beside a node that has just come, too"


def test_two_young_instances_do_not_keep_karpenter_closed(aws):
    aws.beats(without_lease=1)
    look(aws)
    assert aws.closed
    for name in ("i-one", "i-two"):
        aws.instance(name, timedelta(hours=2))
    aws.beats(lease_age=3600)
    assert look(aws)["ended"] == [] and not aws.closed


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
