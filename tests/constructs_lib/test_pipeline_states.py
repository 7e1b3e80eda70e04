"""The state machine's definition, checked as data: whole, safe on every error, and small enough in its history."""

from __future__ import annotations

import json
import re

import pytest
from specdecode.experiment import load_preset, preset_names
from specdecode.planning import Inventory, make_plan
from specdecode.planning import events as counted
from specdecode.steps import errors
from specdecode.steps.plan import Planned

from constructs_lib.pipeline.functions import FUNCTIONS
from constructs_lib.pipeline.state_kinds import NEVER_AGAIN, RETRY, TASK_TIMEOUT_S
from constructs_lib.pipeline.states import STEPS, definition
from tests.pricing import PRICED

MACHINE = definition({name: f"arn:{name}" for name in FUNCTIONS})
STATES = MACHINE["States"]
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}
CLEANUP = ("Diagnose", "StopArmsAfterFailure", "ReleaseAfterFailure")
HARD_LIMIT = 25_000
"""Step Functions ends an execution there."""


def successors(state):
    """Names of all states that may follow."""
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
        terminal = state["Type"] in {"Succeed", "Fail"}
        assert terminal != bool(successors(state)), name
        assert state["Type"] != "Choice" or "Default" in state, name


def test_it_is_jsonata_throughout_without_what_the_emulator_lacks():
    assert MACHINE["QueryLanguage"] == "JSONata"
    jsonpath = {"InputPath", "OutputPath", "ResultPath", "ResultSelector", "Parameters", "SecondsPath"}
    for name, state in STATES.items():
        assert not jsonpath & set(state), name
        assert state["Type"] in {"Task", "Choice", "Wait", "Succeed", "Fail"}, name
    assert all(expression.endswith("%}") for expression in expressions(MACHINE))
    assert {task["Resource"] for task in TASKS.values()} == {"arn:aws:states:::lambda:invoke"}


def test_variables_are_assigned_before_they_are_read():
    assigned = {"Plan": {"wave", "waves", "accuracy", "adaptive", "ahead", "endpoints"}}
    for name, state in STATES.items():
        read = set(re.findall(r"\$(\w+)", json.dumps(state))) - {"states", "exists"}
        if name in CLEANUP or name == "Failed":
            assert read <= {"failure"}, name
        elif name not in assigned:
            assert read <= assigned["Plan"], name
    # Before Plan has answered nothing may read a wave, and the clean-up never does.
    assert not re.search(r"\$waves?\b", json.dumps([STATES[name] for name in CLEANUP]))


@pytest.mark.parametrize("name", [name for name in TASKS if name not in CLEANUP])
def test_any_error_of_a_step_leads_through_the_whole_clean_up(name):
    catcher = TASKS[name]["Catch"][-1]
    assert catcher["ErrorEquals"] == ["States.ALL"]
    assert catcher["Assign"] == {"failure": "{% $states.errorOutput %}"}
    assert catcher["Next"] == "Diagnose"


def test_only_a_failed_accuracy_test_and_a_refused_artifact_let_the_run_go_on():
    early = {name: state["Catch"][:-1] for name, state in TASKS.items() if len(state["Catch"]) > 1}
    assert early == {
        "Accuracy": [{"ErrorEquals": ["AccuracyFailed"], "Next": "StopArms"}],
        "Serve": [{"ErrorEquals": ["ArtifactRefused"], "Next": "StopBeforeCompile"}],
    }


def test_accuracy_is_measured_while_the_arms_serve_and_only_if_asked_for():
    assert STATES["Benchmark done?"]["Choices"][0]["Next"] == "Accuracy?"
    asked = STATES["Accuracy?"]
    assert asked["Choices"] == [{"Condition": "{% $accuracy %}", "Next": "Accuracy"}]
    assert asked["Default"] == STATES["Accuracy done?"]["Choices"][0]["Next"] == "StopArms"
    assert STATES["Plan"]["Assign"]["accuracy"] == "{% $states.result.Payload.accuracy %}"
    assert "accuracy" in Planned.model_fields


def test_compile_on_cpu_compiles_before_the_node_and_enters_compile_only_by_a_refused_artifact():
    assert STATES["Compile before?"]["Choices"] == [{"Condition": "{% $ahead %}", "Next": "CompileOnCpu"}]
    assert STATES["Compile here?"]["Choices"] == [{"Condition": "{% $ahead %}", "Next": "Serve"}]
    assert (STATES["Compile before?"]["Default"], STATES["Compile here?"]["Default"]) == ("AcquireCapacity", "Compile")
    assert STATES["StageModels done?"]["Choices"][0]["Next"] == "Compile before?"
    assert STATES["CompileOnCpu done?"]["Choices"][0]["Next"] == "AcquireCapacity"
    assert STATES["CompileOnCpu"]["Arguments"]["FunctionName"] == STATES["Compile"]["Arguments"]["FunctionName"]
    assert STATES["CompileOnCpu"]["Arguments"]["Payload"]["ahead"] is True
    assert "ahead" not in STATES["Compile"]["Arguments"]["Payload"]
    assert STATES["StopBeforeCompile"]["Arguments"]["FunctionName"] == STATES["StopArms"]["Arguments"]["FunctionName"]
    assert STATES["StopBeforeCompile done?"]["Choices"][0]["Next"] == "Compile"
    assert "ahead" in Planned.model_fields


def test_servers_that_already_run_take_no_node_and_are_never_served():
    asked = STATES["Already running?"]
    assert asked["Choices"] == [{"Condition": "{% $endpoints %}", "Next": "TakeTurn"}]
    assert asked["Default"] == "StageModels"
    assert STATES["Plan"]["Assign"]["endpoints"] == "{% $states.result.Payload.endpoints %}"
    assert "endpoints" in Planned.model_fields
    assert STATES["TakeTurn done?"]["Choices"][0]["Next"] == "Smoke"
    assert [(rule["Condition"], rule["Next"]) for rule in STATES["More waves?"]["Choices"]] == [
        ("{% $wave + 1 < $waves and $endpoints %}", "Smoke"),
        ("{% $wave + 1 < $waves and $ahead %}", "Serve"),
        ("{% $wave + 1 < $waves %}", "Compile"),
    ]


def test_no_failing_clean_up_keeps_the_node_from_being_released():
    assert reachable("Diagnose", skip=["ReleaseAfterFailure"]).isdisjoint({"Failed", "Succeeded"})
    for name in CLEANUP:
        (catcher,) = TASKS[name]["Catch"]
        assert catcher["ErrorEquals"] == ["States.ALL"]
        again = TASKS[name]["Retry"][-1]["MaxAttempts"]
        assert again >= 5 if name != "Diagnose" else 1 <= again * FUNCTIONS[name].timeout_s <= 600
    assert TASKS["StopArmsAfterFailure"]["Catch"][0]["Next"] == "ReleaseAfterFailure"


def test_success_comes_only_after_release():
    assert "Succeeded" not in reachable("Plan", skip=["ReleaseCapacity"])


def test_models_are_staged_before_capacity_is_taken():
    assert "AcquireCapacity" not in reachable("Plan", skip=["StageModels"])


def test_retries_name_exactly_the_errors_that_are_final():
    assert sorted(NEVER_AGAIN) == errors.FINAL
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
    assert "{} runs the default preset" in MACHINE["Comment"]
    for name, task in TASKS.items():
        assert task["Comment"].endswith("."), name
    assert [name for name in STATES if name in STEPS] == list(STEPS)


def test_every_function_is_used():
    used = {task["Arguments"]["FunctionName"].removeprefix("arn:") for task in TASKS.values()}
    assert used == set(FUNCTIONS) - {"Watchdog", "Inspect"}


def test_a_look_is_counted_as_the_definition_makes_it():
    """A Task is entered, scheduled, started, succeeds, is exited; a Choice and a Wait are entered and exited."""
    events = {"Task": 5, "Choice": 2, "Wait": 2}
    for name in TASKS:
        if f"{name} done?" in STATES:
            parts = [STATES[part] for part in (name, f"{name} done?", f"{name}: wait")]
            assert sum(events[part["Type"]] for part in parts) == counted.EVENTS_PER_LOOK
            assert counted.EVENTS_PER_LOOK - events["Wait"] == counted.LAST_LOOK
    waiting = {part for name in TASKS if f"{name} done?" in STATES for part in (name, f"{name} done?", f"{name}: wait")}
    assert sum(events.get(STATES[name]["Type"], 2) for name in set(STATES) - waiting) <= counted.EVENTS_ONCE


@pytest.mark.parametrize("accuracy", [False, True])
@pytest.mark.parametrize("preset", preset_names())
def test_the_history_of_every_preset_stays_within_its_limit(preset, accuracy):
    plan = make_plan(load_preset(preset, overrides={"accuracy": accuracy}), inventory=Inventory(), capacity=PRICED)
    assert plan.poll_seconds >= 60
    assert plan.worst_case_events <= counted.HISTORY_LIMIT < HARD_LIMIT


def test_the_accuracy_tests_looks_are_counted():
    """Two arms, an hour each: a look a minute, four while their end is expected."""
    plain, tested = (
        make_plan(load_preset("qwen3-32b", overrides={"accuracy": accuracy}), inventory=Inventory())
        for accuracy in (False, True)
    )
    (step,) = [step for step in tested.steps if step.name == "Accuracy"]
    at = {"poll_s": 60, "attentive_s": 15}
    more = counted.worst_case_events(tested.steps, **at) - counted.worst_case_events(plain.steps, **at)
    often = step.expected_minutes + counted.STILL_ATTENTIVE.total_seconds() / 60
    looks = int(often * 4) + 1 + step.deadline_minutes - int(often)
    assert step.deadline_minutes == 120
    assert abs(more / counted.EVENTS_PER_LOOK - looks) <= 1


def test_a_larger_experiment_is_looked_at_less_often():
    small = make_plan(load_preset("qwen3-32b"), inventory=Inventory())
    large = make_plan(load_preset("qwen3-32b-tuning"), inventory=Inventory())
    assert small.poll_seconds < large.poll_seconds


def test_an_adaptive_sweep_asks_after_every_wave_and_no_other_run_does():
    assert STATES["StopArms done?"]["Choices"][0]["Next"] == "Sweep?"
    (asked,) = STATES["Sweep?"]["Choices"]
    assert (asked["Condition"], asked["Next"]) == ("{% $adaptive %}", "Advise")
    assert STATES["Sweep?"]["Default"] == STATES["Advise"]["Next"] == "More waves?"
    assert STATES["Advise"]["Assign"] == {"waves": "{% $states.result.Payload.waves %}"}


def test_what_lies_between_two_waves_is_counted():
    between = ("Sweep?", "Advise", "More waves?", "Accuracy?")
    events = {"Task": 5, "Choice": 2}
    assert sum(events[STATES[name]["Type"]] for name in between) == counted.EVENTS_PER_WAVE
