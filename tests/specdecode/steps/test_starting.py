"""Which runs are begun: what is refused before anything is created, and what is kept of who began it."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from specdecode import s3_keys
from specdecode.experiment import Capacity
from specdecode.planning.offers import offers
from specdecode.steps import diagnose, plan
from specdecode.steps.errors import InvalidExperiment, NobodyTold

from tests.specdecode.steps.world import DEFAULT, World, arn


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"experiment": "nonsense"}, "no preset is called 'nonsense'"),
        ({"experimnt": "rehearsal"}, "experimnt"),
        ({"experiment": "rehearsal", "set": {"workload.requests": 0, "workload.concurrency": -1}}, "requests"),
        ({"resume": "never-was"}, "no run never-was"),
        ({"resume": "x", "experiment": "rehearsal"}, "neither experiment nor set"),
        ([1], "The input is not one"),
    ],
)
def test_a_bad_input_is_refused_with_the_reason(world, request_, words):
    with pytest.raises(InvalidExperiment, match=words):
        world.plan(request=request_)
    assert world.workloads() == []


def test_a_bad_execution_name_is_refused():
    with pytest.raises(InvalidExperiment, match="becomes the run's id"):
        World().plan("späti")


def test_a_plan_that_no_history_holds_is_refused_as_the_experiment_s_fault():
    changes = {"sweep": "grid", "workload.rounds": 20, "serving.devices": 16, "serving.tensor_parallel_size": 64}
    with pytest.raises(InvalidExperiment, match="460 waves"):
        World().plan(request={"experiment": "qwen3-32b-tuning", "set": changes})


@pytest.mark.parametrize(
    ("accepted", "says"), [({}, "\\$500 needs no consent"), ({"accept_cost": 600}, "\\$600.00 was accepted")]
)
def test_a_run_that_could_cost_more_than_anybody_accepted_is_refused_wherever_it_is_started(world, accepted, says):
    """As the console does it: no command line has asked anybody."""
    with pytest.raises(InvalidExperiment, match=f'could cost \\$2,828.*{says}.*"accept_cost": 2828'):
        world.plan(request={"experiment": "llama-3.1-405b", **accepted})
    assert not world.s3.objects
    world.plan(request={"experiment": "llama-3.1-405b", "accept_cost": 2828})


def test_an_amount_below_the_deployment_s_bound_is_the_run_s_bound(world):
    with pytest.raises(InvalidExperiment, match=r'could cost \$167.*\$10\.00 was accepted.*"accept_cost": 167'):
        world.plan(request={**DEFAULT, "accept_cost": 10})
    assert not world.s3.objects
    world.plan(request={**DEFAULT, "accept_cost": 167})


def test_the_bound_is_the_deployment_s_and_a_resumed_run_must_be_accepted_too(world):
    world.plan()
    world.rt.environ["CAPACITY"] = Capacity(accept_cost_above=10).model_dump_json()
    with pytest.raises(InvalidExperiment, match="needs no consent"):
        world.plan("run-2", {"resume": "run-1"})
    world.plan("run-2", {"resume": "run-1", "accept_cost": 500})
    world.rt.environ["CAPACITY"] = Capacity(accept_cost_above=10, reservation="cr-0123456789abcdef0").model_dump_json()
    world.plan("run-3")


def test_who_started_a_run_is_kept_with_it(world):
    world.plan(request={"started_by": "arn:aws:sts::111122223333:assumed-role/Admin/anna", "experiment": "rehearsal"})
    assert world.record().started_by.endswith("Admin/anna")


def test_a_name_that_an_earlier_run_had_is_refused_and_its_results_stay(world):
    """Step Functions frees a name after 90 days, and the ARN is the same."""
    first = world.given("run-1", input=DEFAULT, execution_started=world.time)
    for _ in range(2):  # a step may be asked again
        plan.plan(first, world.rt)
    kept = dict(world.s3.objects)
    again = first.model_copy(update={"execution_started": world.time + timedelta(days=91)})
    with pytest.raises(
        InvalidExperiment, match=r"run-1 was used by a run that started at 2026-08-01 12:00 UTC.*another"
    ):
        plan.plan(again, world.rt)
    caught = {"Error": "InvalidExperiment", "Cause": "the name run-1 was used"}
    failed = again.model_copy(update={"error": caught, "input": None})
    assert "refused before anything was created" in diagnose.diagnose(failed, world.rt).Cause
    assert world.s3.objects == kept, "neither the plan nor the diagnosis adds to the earlier run's results"


def test_a_record_of_a_version_that_kept_no_start_is_an_earlier_run_s_too(world):
    first = world.given("run-1", input=DEFAULT)
    plan.plan(first, world.rt)
    with pytest.raises(InvalidExperiment, match="was used by a run"):
        plan.plan(first.model_copy(update={"execution_started": world.time}), world.rt)


def test_measurements_without_a_record_are_never_taken_for_a_new_run_s(world):
    world.s3.objects[s3_keys.run_key("run-1", "raw/base/count.jsonl")] = b"{}\n"
    with pytest.raises(InvalidExperiment, match=r"1 files of measurements lie below .*start it with another name"):
        world.plan()


def test_a_failed_run_of_a_fresh_name_keeps_its_diagnosis(world):
    given = world.given("run-1", input=DEFAULT, execution_started=world.time)
    plan.plan(given, world.rt)
    failed = given.model_copy(update={"error": {"Error": "ServeNotReady", "Cause": "x"}, "input": None})
    diagnose.diagnose(failed, world.rt)
    assert [failure.stage for failure in world.record().failures] == ["ServeNotReady"]
    assert s3_keys.run_key("run-1", "diagnostics/diagnosis.json") in world.s3.objects


class FakeSns:
    """The alerts topic's subscriptions, in pages of one."""

    def __init__(self, *subscriptions: dict[str, str]) -> None:
        self.subscriptions = subscriptions

    def get_paginator(self, operation: str) -> FakeSns:
        assert operation == "list_subscriptions_by_topic"
        return self

    def paginate(self, *, TopicArn: str) -> list[dict[str, list[dict[str, str]]]]:
        assert TopicArn == TOPIC
        return [{"Subscriptions": [item]} for item in self.subscriptions] or [{"Subscriptions": []}]


TOPIC = "arn:aws:sns:us-east-2:1:alerts"
PENDING = {"SubscriptionArn": "PendingConfirmation", "Endpoint": "you@example.com"}
CONFIRMED = {"SubscriptionArn": f"{TOPIC}:7", "Endpoint": "you@example.com"}
FORMER = CONFIRMED | {"Endpoint": "before@example.com"}
"""Subscribed by `specdecode subscribe`: CloudFormation does not delete it with the address."""


def told(*subscriptions: dict[str, str]) -> World:
    world = World()
    world.rt.environ["ALERTS_TOPIC"] = TOPIC
    others = world.rt.clients
    world.rt.clients = lambda service: FakeSns(*subscriptions) if service == "sns" else others(service)
    return world


@pytest.mark.parametrize(
    ("subscriptions", "says"),
    [
        ((), "accept_no_alerts=true"),
        (("given",), "SNS deleted the subscription (or somebody ended it): `.venv/bin/specdecode subscribe`"),
        ((PENDING,), "you@example.com is not confirmed: nobody is told yet: open the link"),
        (("given", FORMER, PENDING), "you@example.com is not confirmed: nobody is told yet: open the link"),
        (("given", FORMER), "SNS deleted the subscription"),
    ],
)
def test_a_run_of_which_nobody_would_hear_is_refused_from_wherever_it_is_started(subscriptions, says):
    world = told(*(item for item in subscriptions if item != "given"))
    world.rt.environ |= {"ALERTS_ADDRESS": "You@example.com"} if "given" in subscriptions else {}
    with pytest.raises(NobodyTold, match=re.escape(says)) as caught:
        world.plan(request={})
    assert not [key for key in world.s3.objects if key.startswith("runs/")], "refused before anything was stored"
    cause = world.clean_up(caught.value).Cause
    assert cause.startswith("The run was refused before anything was created, since nobody would be told")


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({}, "names no experiment, so nothing was started"),
        (None, "names no experiment, so nothing was started"),
        ({"Comment": "Insert your JSON here"}, "names no experiment (what it holds is the console's own sample)"),
        ({"set": {"workload.requests": 4}, "accept_cost": 9000}, "names no experiment"),
    ],
)
def test_an_input_that_names_nothing_starts_nothing_and_gets_the_presets_with_their_prices(world, request_, says):
    with pytest.raises(InvalidExperiment, match=re.escape(says)) as caught:
        plan.plan(world.given("run-1", input=request_), world.rt)
    assert not [key for key in world.s3.objects if key.startswith("runs/")]
    lines = str(caught.value).splitlines()[2:]
    assert lines[0].split()[:3] == ["account-check", "supported", "m7i.4xlarge"]
    ended = ["ended" in line for line in lines]
    assert ended == sorted(ended) and any(ended) and all("$" in line or "at your price" in line for line in lines)


def test_one_confirmed_subscription_is_enough_wherever_it_stands():
    assert told(PENDING, CONFIRMED).plan() == 1


def test_a_plan_says_what_it_warns_of_to_whoever_starts_from_the_console(world):
    world.rt.environ["CAPACITY"] = Capacity(longest_run_hours=1).model_dump_json()
    world.states.executions[arn("run-1")] = "RUNNING"
    request = {**DEFAULT, "set": {"deadlines.benchmark": 1000}, "accept_cost": 5000}
    planned = plan.plan(world.given("run-1", input=request), world.rt)
    assert any("configure longest_run_hours=" in text for text in planned.warnings), planned.warnings


def test_a_deployment_offers_what_it_takes():
    """The AMI of the old engine has a driver that the native ones refuse."""
    names = {offer.name for offer in offers(Capacity(node="trn2.48xlarge", ami="v20260224"))}
    assert "qwen3-32b" in names and "qwen3-32b-native" not in names and "llama-3.1-8b-eagle3-small" not in names


def test_a_start_that_a_schedule_delivers_twice_begins_one_run(world):
    """Each delivery has a name of its own, and both the time of the schedule."""
    request = {**DEFAULT, "scheduled_time": "2026-11-28T00:00:00Z"}
    world.plan("nightly-1", request)
    world.plan("nightly-1", request)  # the step itself is tried again
    with pytest.raises(InvalidExperiment, match="delivered twice, and has begun nightly-1") as caught:
        world.plan("nightly-2", request)
    assert not [key for key in world.s3.objects if key.startswith("runs/nightly-2/")]
    assert "Nothing is left to do" in world.clean_up(caught.value, "nightly-2").Cause
    world.plan("nightly-3", {**request, "scheduled_time": "2026-11-29T00:00:00Z"})


def test_a_start_that_was_refused_before_it_began_a_run_may_be_delivered_again(world):
    request = {"experiment": "llama-3.1-405b", "scheduled_time": "2026-11-28T00:00:00Z"}
    with pytest.raises(InvalidExperiment, match="could cost"):
        world.plan("nightly-1", request)
    world.plan("nightly-2", {**request, "accept_cost": 2828})
