"""The state machine's definition, checked as data: whole, safe on every error, and small enough in its history."""

import inspect
import json
import re

import pytest
from specdecode.cli.runs_deployment import Deployment
from specdecode.experiment import load_preset, preset_names
from specdecode.kubernetes.client import InvalidManifest, QuotaExceeded
from specdecode.planning import events as counted
from specdecode.runs.lease import LeaseDamaged
from specdecode.runs.state import StateDamaged
from specdecode.steps import errors
from specdecode.steps.advise import Advised
from specdecode.steps.plan import Planned

from constructs_lib.pipeline.functions import FUNCTIONS
from constructs_lib.pipeline.state_kinds import LOOK_AGAIN, NEVER_AGAIN, RETRY, TASK_TIMEOUT_S
from constructs_lib.pipeline.states import STEPS, definition
from tests.plans import PRICED, plan_for

MACHINE = definition({name: f"arn:{name}" for name in FUNCTIONS})
STATES = MACHINE["States"]
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}
WAITS = [name for name, state in TASKS.items() if list(LOOK_AGAIN) in [rule["ErrorEquals"] for rule in state["Catch"]]]
MOST_STATES = 20
CLEANUP = ("Diagnose", "StopArmsAfterFailure", "ReleaseAfterFailure")
HARD_LIMIT = 25_000
"""Step Functions ends an execution there."""


def successors(state):
    named = [state.get("Next"), state.get("Default")]
    named += [rule["Next"] for rule in state.get("Choices", ())]
    named += [rule["Next"] for rule in state.get("Catch", ())]
    return [name for name in named if name]


def reachable(start, *, skip=()):
    seen, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name not in seen and name not in skip:
            seen.add(name)
            todo += successors(STATES[name])
    return seen


def expressions(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)
    elif isinstance(value, str) and value.startswith("{%"):
        yield value


def test_every_target_exists_and_every_state_is_reached():
    for name, state in STATES.items():
        assert set(successors(state)) <= set(STATES), name
    assert reachable(MACHINE["StartAt"]) == set(STATES)


def test_every_state_ends_or_goes_on():
    for name, state in STATES.items():
        goes_on = "Next" in state or state["Type"] == "Choice"
        assert goes_on != (state["Type"] == "Fail" or state.get("End") is True), name
        assert state["Type"] != "Choice" or "Default" in state, name
    assert [name for name, state in STATES.items() if state.get("End")] == ["Report"]


def test_the_graph_is_one_box_a_step():
    """A person in the console sees the way of a run: one choice, which loops over the waves, and no wait."""
    assert len(STATES) <= MOST_STATES
    way, name = [], MACHINE["StartAt"]
    while name:
        way.append(name)
        name = STATES[name].get("Next") or STATES[name].get("Default")
    assert way == [*STEPS, "More waves?", "ReleaseCapacity", "Report"]
    assert [name for name, state in STATES.items() if state["Type"] != "Task"] == ["More waves?", "Failed"]


def test_it_is_jsonata_throughout_without_what_the_emulator_lacks():
    assert MACHINE["QueryLanguage"] == "JSONata"
    jsonpath = {"InputPath", "OutputPath", "ResultPath", "ResultSelector", "Parameters", "SecondsPath"}
    for name, state in STATES.items():
        assert not jsonpath & set(state), name
        assert state["Type"] in {"Task", "Choice", "Fail"}, name
    assert all(expression.endswith("%}") for expression in expressions(MACHINE))
    assert {task["Resource"] for task in TASKS.values()} == {"arn:aws:states:::lambda:invoke"}


def test_variables_are_assigned_before_they_are_read():
    assigned = {"Plan": {"wave", "waves", "adaptive", "again"}}
    for name, state in STATES.items():
        read = set(re.findall(r"\$(\w+)", json.dumps(state))) - {"states", "exists"}
        if name in CLEANUP or name == "Failed":
            assert read <= {"failure"}, name
        elif name not in assigned:
            assert read <= assigned["Plan"], name
    assert set(STATES["Plan"]["Assign"]) == assigned["Plan"]
    # Before Plan has answered nothing may read a wave, and the clean-up never does.
    assert not re.search(r"\$waves?\b", json.dumps([STATES[name] for name in CLEANUP]))


@pytest.mark.parametrize("name", [name for name in TASKS if name not in CLEANUP])
def test_any_error_of_a_step_leads_through_the_whole_clean_up(name):
    catcher = TASKS[name]["Catch"][-1]
    assert catcher["ErrorEquals"] == ["States.ALL"]
    assert catcher["Assign"] == {"failure": "{% $states.errorOutput %}"}
    assert catcher["Next"] == "Diagnose"


def test_only_a_failed_accuracy_test_and_a_refused_artifact_let_the_run_go_on():
    more = {name: [rule for rule in state["Catch"][:-1] if rule["Next"] != name] for name, state in TASKS.items()}
    assert {name: rules for name, rules in more.items() if rules} == {
        "Accuracy": [{"ErrorEquals": ["AccuracyFailed", "HoldFailed"], "Next": "StopArms"}],
        "Serve": [{"ErrorEquals": ["ArtifactRefused"], "Assign": {"again": True}, "Next": "StopArms"}],
    }


def test_a_step_waits_in_its_own_state_and_real_errors_keep_their_tries():
    """Its retriers count each for itself, over a visit of the state. The catcher begins another visit."""
    assert set(WAITS) == {*STEPS, "StopArmsAfterFailure"} - {"Plan"}
    for name in WAITS:
        *looks, last = [rule for rule in TASKS[name]["Retry"] if rule["MaxAttempts"]]
        assert looks == [
            {"ErrorEquals": [error], "IntervalSeconds": s, "MaxAttempts": counted.RETRIES_A_VISIT, "BackoffRate": 1.0}
            for error, s in LOOK_AGAIN.items()
        ]
        assert last["ErrorEquals"] == ["States.ALL"]
        assert TASKS[name]["Catch"][0] == {"ErrorEquals": list(LOOK_AGAIN), "Next": name}
    assert not any(error in json.dumps(TASKS[name]) for name in set(TASKS) - set(WAITS) for error in LOOK_AGAIN)


def test_a_look_that_says_so_is_retried_after_that_time_and_is_no_final_error():
    assert [error.__name__ for error in errors.LOOK_AGAIN] == list(LOOK_AGAIN)
    assert list(LOOK_AGAIN.values()) == list(counted.INTERVALS_S) == sorted(counted.INTERVALS_S)
    assert set(LOOK_AGAIN).isdisjoint(NEVER_AGAIN)


def test_the_command_line_reads_enough_of_a_history_to_find_the_state():
    """A state is entered again after so many looks that its name is among the newest events."""
    newest = inspect.signature(Deployment.events).parameters["newest"].default
    for name in WAITS:
        tries = 1 + sum(rule["MaxAttempts"] for rule in TASKS[name]["Retry"])
        assert counted.EVENTS_PER_LOOK * tries + counted.EVENTS_PER_VISIT <= newest


def test_engines_are_checked_on_the_node_before_the_first_compile_and_only_then():
    assert STATES["AcquireCapacity"]["Next"] == "StartCheck" and STATES["StartCheck"]["Next"] == "Compile"
    assert STATES["StartCheck"]["Arguments"]["FunctionName"] == STATES["Compile"]["Arguments"]["FunctionName"]
    assert STATES["StartCheck"]["Arguments"]["Payload"]["start_check"] is True
    assert "StartCheck" not in reachable("Compile", skip=[])


@pytest.mark.parametrize(("name", "answer"), [("Plan", Planned), ("Advise", Advised)])
def test_how_many_waves_there_are_and_whether_the_advisor_is_asked_comes_from_the_answers(name, answer):
    told = {key: value for key, value in STATES[name]["Assign"].items() if isinstance(value, str)}
    assert told == {key: f"{{% $states.result.Payload.{key} %}}" for key in ("waves", "adaptive")}
    assert {"waves", "adaptive"} <= set(answer.model_fields)


def test_no_failing_clean_up_keeps_the_node_from_being_released():
    assert reachable("Diagnose", skip=["ReleaseAfterFailure"]).isdisjoint({"Failed", "Report"})
    for name in CLEANUP:
        catcher = TASKS[name]["Catch"][-1]
        assert catcher["ErrorEquals"] == ["States.ALL"]
        again = TASKS[name]["Retry"][-1]["MaxAttempts"]
        assert again >= 5 if name != "Diagnose" else 1 <= again * FUNCTIONS[name].timeout_s <= 600
    assert TASKS["StopArmsAfterFailure"]["Catch"][-1]["Next"] == "ReleaseAfterFailure"


def test_success_comes_only_after_release():
    assert "Report" not in reachable("Plan", skip=["ReleaseCapacity"])


def test_models_are_staged_before_capacity_is_taken():
    assert "AcquireCapacity" not in reachable("Plan", skip=["StageModels"])


def test_retries_name_exactly_the_errors_that_are_final():
    final = (*errors.StepFailed.__subclasses__(), InvalidManifest, QuotaExceeded, LeaseDamaged, StateDamaged)
    assert sorted(NEVER_AGAIN) == sorted(error.__name__ for error in final)
    assert RETRY[0] == {"ErrorEquals": list(NEVER_AGAIN), "MaxAttempts": 0}
    for name, task in TASKS.items():
        last = task["Retry"][-1]
        assert last["ErrorEquals"] == ["States.ALL"], name
        assert last["BackoffRate"] >= 1.0
        assert last["JitterStrategy"] == "FULL"


def test_a_task_outlives_its_function_and_not_much_more():
    longest = max(spec.timeout_s for spec in FUNCTIONS.values())
    assert longest < TASK_TIMEOUT_S < longest + 60
    assert all(task["TimeoutSeconds"] == TASK_TIMEOUT_S for task in TASKS.values())


def test_the_console_shows_what_happens():
    assert "{} starts nothing" in MACHINE["Comment"]
    for name, task in TASKS.items():
        assert task["Comment"].endswith("."), name
    assert [name for name in STATES if name in STEPS] == list(STEPS)


def test_every_function_is_used():
    used = {task["Arguments"]["FunctionName"].removeprefix("arn:") for task in TASKS.values()}
    assert used == set(FUNCTIONS) - {"Watchdog", "Inspect"}


def test_what_does_not_wait_is_counted():
    """A Task is entered, scheduled, started, succeeds, is exited; a Choice is entered and exited."""
    assert counted.EVENTS_PER_TASK == 5
    idle_in_a_wave = max(len({"Compile", "Accuracy"}), len({"Compile", "Serve"}))  # compiled on CPU nodes; run already
    assert (idle_in_a_wave + len({"Advise"})) * 5 + 2 * len({"wave", "Advise"}) == counted.EVENTS_PER_WAVE
    idle = {"StageModels", "CompileOnCpu", "AcquireCapacity", "StartCheck", "Accuracy"}
    once = set(TASKS) - set(WAITS) - {"Advise"}
    tries = sum(counted.EVENTS_PER_LOOK * (TASKS[name]["Retry"][-1]["MaxAttempts"]) for name in CLEANUP)
    ends = len(["ExecutionStarted", "FailStateEntered", "ExecutionFailed"])
    assert len(idle | once) * 5 + tries + ends <= counted.EVENTS_ONCE


@pytest.mark.parametrize("accuracy", [False, True])
@pytest.mark.parametrize("preset", preset_names())
def test_the_history_of_every_preset_stays_within_its_limit(preset, accuracy):
    plan = plan_for(load_preset(preset, overrides={"accuracy": accuracy}), capacity=PRICED)
    assert plan.worst_case_events <= counted.HISTORY_LIMIT < HARD_LIMIT


def test_a_preset_of_a_day_is_looked_at_every_15_seconds_until_its_deadlines():
    for preset in preset_names():
        plan = plan_for(load_preset(preset), capacity=PRICED)
        hours = sum(step.deadline_minutes for step in plan.steps) / 60
        assert (plan.attentive_seconds, plan.poll_seconds) == ((15, 15) if hours < 24 else (60, 60)), preset


def test_the_accuracy_tests_looks_are_counted():
    """Two arms, an hour each: a look a minute, four while their end is expected."""
    plain, tested = (plan_for(load_preset("qwen3-32b", overrides={"accuracy": accuracy})) for accuracy in (False, True))
    (step,) = [step for step in tested.steps if step.name == "Accuracy"]
    at = {"poll_s": 60, "attentive_s": 15}
    more = counted.worst_case_events(tested.steps, **at) - counted.worst_case_events(plain.steps, **at)
    often = step.takes.high + counted.STILL_ATTENTIVE.total_seconds() / 60
    looks = int(often * 4) + 1 + step.deadline_minutes - int(often)
    assert step.deadline_minutes == 120
    assert counted.EVENTS_PER_LOOK * (looks - 1) <= more <= (counted.EVENTS_PER_LOOK + 1) * (looks + 1)


def test_a_larger_experiment_is_looked_at_less_often():
    small = plan_for(load_preset("qwen3-32b"))
    large = plan_for(load_preset("qwen3-32b-tuning"))
    assert small.poll_seconds < large.poll_seconds
