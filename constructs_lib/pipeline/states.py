"""The state machine's definition (Amazon States Language, JSONata), as plain data.

    Plan -> StageModels -> CompileOnCpu -> AcquireCapacity -> StartCheck -> for each wave: Compile -> Serve -> Smoke
         -> Benchmark -> Accuracy -> StopArms (-> Advise, after the last wave of an adaptive sweep) -> ReleaseCapacity
         -> Report
    an artifact of a CPU node does not load: Serve -> StopArms -> Compile -> Serve
    any error -> Diagnose -> StopArmsAfterFailure -> ReleaseAfterFailure -> Failed

Every run enters every step. One that has nothing to do for this run says so at once: servers that already run are not
staged, checked, compiled or served, and only `compile.on: cpu` compiles on CPU nodes.

The waves are a loop over a counter, not a Map: states stay at the top level, where the console, a stop and one Catch
reach them alike. All data lies in S3; the states carry the run's id, the wave's number and a line of progress.
"""

from collections.abc import Mapping
from typing import Any

from constructs_lib.pipeline.state_kinds import (
    RETRY,
    RETRY_CLEANUP,
    RETRY_DIAGNOSIS,
    TO_DIAGNOSIS,
    State,
    task,
    waiting,
)

INPUT_HELP = (
    'Input: {"experiment": "<preset>"} or {"experiment": {...}}, an inline document; {} starts nothing and lists the '
    'presets with their prices; "set": {"workload.requests": 4} overrides fields by dotted path; '
    '{"resume": "<run id>"} repeats a run and skips what it had finished. "accept_cost": 900 beside any of them '
    "accepts US dollars that the run may cost at most, by its deadlines; what could cost more than that or, without "
    "it, than the deployment allows is refused. The execution's name is the run's id."
)

STEPS = {
    "Plan": "Validate the experiment, work out what is missing and in which waves the arms fit on the node.",
    "StageModels": "Bring missing models to the bucket, on ordinary CPU nodes.",
    "CompileOnCpu": "Only with `compile.on: cpu`: compile what is missing on large CPU nodes, models side by side, "
    "before the node is taken.",
    "AcquireCapacity": "Queue for the node, then wait until it is Ready and has published its Neuron devices. For "
    "servers that already run: wait until no other run loads such servers.",
    "StartCheck": "Start each kind of arm once with a tiny random model, and ask it for some tokens, before anything "
    "is compiled. Kinds that a run of this bucket has served with this engine need no check.",
    "Compile": "Compile what has never been compiled with these settings, one model at a time.",
    "Serve": "Start the wave's arms from their compiled artifacts and wait until all are ready.",
    "Smoke": "Send every arm one real request, before any is measured.",
    "Benchmark": "Load all arms of the wave alike and store every request.",
    "Accuracy": "If the experiment asks for it, let lm-eval question the arms while they serve. Then keep them for "
    "`hold` minutes, in which `specdecode ask` questions them. If either fails, the run goes on and the report says "
    "so.",
    "StopArms": "Delete the wave's workloads and wait until no pod and no device claim is left.",
}
"""The steps in the order in which they run. All but Plan are called again until they are done."""

EXECUTION_TIMEOUT_S = 14 * 24 * 3600


def definition(functions: Mapping[str, str]) -> dict[str, Any]:
    """The whole machine; `functions` maps a step's name (and Diagnose, ReleaseCapacity, Report) to its Lambda's ARN."""
    return {
        "Comment": f"Compile, serve and benchmark with and without speculative decoding. {INPUT_HELP}",
        "QueryLanguage": "JSONata",
        "TimeoutSeconds": EXECUTION_TIMEOUT_S,
        "StartAt": "Plan",
        "States": _before_the_waves(functions)
        | _of_a_wave(functions)
        | _after_a_wave(functions)
        | _at_the_end(functions)
        | _after_failure(functions),
    }


def _before_the_waves(functions: Mapping[str, str]) -> dict[str, State]:
    """Plan, then what the run needs: models, artifacts from CPU nodes, its node or its place in the queue."""
    states = {
        "Plan": task(
            functions["Plan"],
            comment=STEPS["Plan"],
            payload={
                "execution_started": "{% $states.context.Execution.StartTime %}",
                "input": "{% $states.context.Execution.Input %}",
            },
            assign={
                "waves": "{% $states.result.Payload.waves %}",
                "adaptive": "{% $states.result.Payload.adaptive %}",
                "again": False,
                "wave": 0,
            },
            following="StageModels",
        )
    }
    for name, following, payload in (
        ("StageModels", "CompileOnCpu", {}),
        ("CompileOnCpu", "AcquireCapacity", {"ahead": True}),
        ("AcquireCapacity", "StartCheck", {}),
        ("StartCheck", "Compile", {"start_check": True}),
    ):
        function = functions["Compile" if name in {"CompileOnCpu", "StartCheck"} else name]
        states[name] = waiting(name, function, comment=STEPS[name], following=following, payload=payload)
    return states


def _of_a_wave(functions: Mapping[str, str]) -> dict[str, State]:
    """The steps that run once for each wave, on the node."""
    same_wave_again = {"ErrorEquals": ["ArtifactRefused"], "Assign": {"again": True}, "Next": "StopArms"}
    accuracy_is_optional = {"ErrorEquals": ["AccuracyFailed", "HoldFailed"], "Next": "StopArms"}
    return {
        name: waiting(
            name,
            functions[name],
            comment=STEPS[name],
            following=following,
            payload={"wave": "{% $wave %}"},
            catch=[*caught, TO_DIAGNOSIS],
        )
        for name, following, caught in (
            ("Compile", "Serve", []),
            ("Serve", "Smoke", [same_wave_again]),
            ("Smoke", "Benchmark", []),
            ("Benchmark", "Accuracy", []),
            ("Accuracy", "StopArms", [accuracy_is_optional]),
            ("StopArms", "More waves?", []),
        )
    }


def _after_a_wave(functions: Mapping[str, str]) -> dict[str, State]:
    """Whether another wave follows."""
    return {
        "More waves?": {
            "Type": "Choice",
            "Comment": "Arms that do not fit on the node together are measured in waves. A wave is served once more if "
            "an artifact of a CPU node did not load. An adaptive sweep asks the advisor for the next wave.",
            "Choices": [
                {"Condition": "{% $again %}", "Assign": {"again": False}, "Next": "Compile"},
                {
                    "Condition": "{% $wave + 1 < $waves %}",
                    "Assign": {"wave": "{% $wave + 1 %}"},
                    "Next": "Compile",
                },
                {"Condition": "{% $adaptive %}", "Next": "Advise"},
            ],
            "Default": "ReleaseCapacity",
        },
        "Advise": task(
            functions["Advise"],
            comment="Ask the advisor, with all that is measured so far: plan one more wave, or end the sweep.",
            assign={
                "waves": "{% $states.result.Payload.waves %}",
                "adaptive": "{% $states.result.Payload.adaptive %}",
            },
            following="More waves?",
        ),
    }


def _at_the_end(functions: Mapping[str, str]) -> dict[str, State]:
    """Give the node up first, then report: a report needs no node."""
    return {
        "ReleaseCapacity": task(
            functions["ReleaseCapacity"],
            comment="Give the node up: to the next run in the queue, or to zero replicas.",
            following="Report",
            retry=RETRY_CLEANUP,
        ),
        "Report": task(
            functions["Report"],
            comment="Compare the arms and write the report; its verdict and links are the execution's output.",
            following=None,
        ),
    }


def _after_failure(functions: Mapping[str, str]) -> dict[str, State]:
    """Diagnose, stop, release, fail. Each is retried, and if one fails the next still runs."""
    error = {"error": "{% $failure %}", "execution_started": "{% $states.context.Execution.StartTime %}"}
    stop = "StopArmsAfterFailure"
    return {
        "Diagnose": task(
            functions["Diagnose"],
            comment="Keep logs, events and descriptions before anything is deleted, and name the cause in plain words.",
            payload=error,
            assign={"failure": "{% $states.result.Payload %}"},
            following=stop,
            retry=RETRY_DIAGNOSIS,
            catch=[{"ErrorEquals": ["States.ALL"], "Next": stop}],
        ),
        stop: waiting(
            stop,
            functions["StopArms"],
            comment="Delete all workloads of the run.",
            following="ReleaseAfterFailure",
            retry=[RETRY[0], *RETRY_CLEANUP],
            catch=[{"ErrorEquals": ["States.ALL"], "Next": "ReleaseAfterFailure"}],
        ),
        "ReleaseAfterFailure": task(
            functions["ReleaseCapacity"],
            comment="Give the node up. If even this fails, the watchdog does it.",
            following="Failed",
            retry=RETRY_CLEANUP,
            catch=[{"ErrorEquals": ["States.ALL"], "Next": "Failed"}],
        ),
        "Failed": {
            "Type": "Fail",
            "Comment": "The cause is in plain words; details lie under the run's diagnostics/.",
            "Error": "{% $failure.Error %}",
            "Cause": "{% $exists($failure.Cause) ? $failure.Cause : 'no cause was given' %}",
        },
    }
