"""The state machine's definition (Amazon States Language, JSONata), as plain data.

    Plan -> StageModels (-> CompileOnCpu) -> AcquireCapacity -> for each wave: Compile -> Serve -> Smoke -> Benchmark
         (-> Accuracy) -> StopArms (-> Advise) -> ReleaseCapacity -> Report -> Succeeded
    compile.on cpu: no Compile, unless an artifact does not load: Serve -> StopBeforeCompile -> Compile -> Serve
    servers that already run: Plan -> TakeTurn -> for each wave: Smoke -> Benchmark (-> Accuracy) -> StopArms -> …
    any error -> Diagnose -> StopArmsAfterFailure -> ReleaseAfterFailure -> Failed

The waves are a loop over a counter, not a Map: states stay at the top level, where the console, a stop and one Catch
reach them alike. All data lies in S3; the states carry the run's id, the wave's number and a line of progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constructs_lib.pipeline.state_kinds import (
    RETRY,
    RETRY_CLEANUP,
    RETRY_DIAGNOSIS,
    TO_DIAGNOSIS,
    State,
    choice,
    task,
    waiting,
)

INPUT_HELP = (
    'Input: {} runs the default preset. {"experiment": "<preset>"} runs another, {"experiment": {...}} an inline '
    'document; "set": {"workload.requests": 4} overrides fields by dotted path; {"resume": "<run id>"} repeats a run '
    'and skips what it had finished. "accept_cost": 900 beside any of them accepts US dollars that the run may cost at '
    "most, by its deadlines; one that could cost more than the deployment allows is refused without it. The "
    "execution's name is the run's id."
)

STEPS = {
    "Plan": "Validate the experiment, work out what is missing and in which waves the arms fit on the node.",
    "TakeTurn": "For servers that already run, no node is needed: wait until no other run loads such servers.",
    "StageModels": "Bring missing models to the bucket, on ordinary CPU nodes.",
    "CompileOnCpu": "Compile what is missing on large CPU nodes, models side by side, before the node is taken.",
    "AcquireCapacity": "Queue for the node, then wait until it is Ready and has published its Neuron devices.",
    "Compile": "Compile what has never been compiled with these settings, one model at a time.",
    "Serve": "Start the wave's arms from their compiled artifacts and wait until all are ready.",
    "StopBeforeCompile": "Stop the wave's servers: an artifact of a CPU node does not load, and Compile needs "
    "the devices.",
    "Smoke": "Send every arm one real request, before any is measured.",
    "Benchmark": "Load all arms of the wave alike and store every request.",
    "Accuracy": "Let lm-eval question the arms while they serve. If it fails, the run goes on and the report says so.",
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
        "States": _before_the_node(functions)
        | _of_a_wave(functions)
        | _after_a_wave(functions)
        | _at_the_end(functions)
        | _after_failure(functions),
    }


def _before_the_node(functions: Mapping[str, str]) -> dict[str, State]:
    """Plan, then what the run needs: models, artifacts from CPU nodes, its turn or its node."""
    answer = "{{% $states.result.Payload.{} %}}"
    told = ("waves", "accuracy", "adaptive", "ahead", "endpoints")
    return {
        "Plan": task(
            functions["Plan"],
            comment=STEPS["Plan"],
            payload={
                "execution_started": "{% $states.context.Execution.StartTime %}",
                "input": "{% $states.context.Execution.Input %}",
            },
            assign={**{key: answer.format(key) for key in told}, "wave": 0},
            following="Already running?",
        ),
        "Already running?": choice(
            "Arms with an endpoint are servers that already run. They are not staged, compiled or served, and "
            "need no node.",
            {"$endpoints": "TakeTurn"},
            default="StageModels",
        ),
        **waiting("TakeTurn", functions["TakeTurn"], comment=STEPS["TakeTurn"], following="Smoke"),
        **waiting("StageModels", functions["StageModels"], comment=STEPS["StageModels"], following="Compile before?"),
        "Compile before?": choice(
            "With `compile.on: cpu`, CPU nodes compile before the node is taken.",
            {"$ahead": "CompileOnCpu"},
            default="AcquireCapacity",
        ),
        **waiting(
            "CompileOnCpu",
            functions["Compile"],
            comment=STEPS["CompileOnCpu"],
            following="AcquireCapacity",
            payload={"ahead": True},
        ),
        **waiting(
            "AcquireCapacity", functions["AcquireCapacity"], comment=STEPS["AcquireCapacity"], following="Compile here?"
        ),
        "Compile here?": choice("Skipped if CPU nodes have compiled.", {"$ahead": "Serve"}, default="Compile"),
    }


def _of_a_wave(functions: Mapping[str, str]) -> dict[str, State]:
    """The steps that run once for each wave, on the node."""
    states: dict[str, State] = {}
    for name, following, catch in (
        ("Compile", "Serve", None),
        ("Serve", "Smoke", _caught("ArtifactRefused", "StopBeforeCompile")),
        ("StopBeforeCompile", "Compile", None),
        ("Smoke", "Benchmark", None),
        ("Benchmark", "Accuracy?", None),
        ("Accuracy", "StopArms", _caught("AccuracyFailed", "StopArms")),
        ("StopArms", "Sweep?", None),
    ):
        states |= waiting(
            name,
            functions["StopArms" if name == "StopBeforeCompile" else name],
            comment=STEPS[name],
            following=following,
            payload={"wave": "{% $wave %}"},
            catch=catch,
        )
    states["Accuracy?"] = choice("Only if the experiment asks for it.", {"$accuracy": "Accuracy"}, default="StopArms")
    return states


def _after_a_wave(functions: Mapping[str, str]) -> dict[str, State]:
    """Whether another wave follows."""
    first_step = {" and $endpoints": "Smoke", " and $ahead": "Serve", "": "Compile"}
    return {
        "Sweep?": choice(
            "Only an adaptive sweep decides after each wave what to measure next.",
            {"$adaptive": "Advise"},
            default="More waves?",
        ),
        "Advise": task(
            functions["Advise"],
            comment="Ask the advisor, with all that is measured so far: plan one more wave, or end the sweep.",
            assign={"waves": "{% $states.result.Payload.waves %}"},
            following="More waves?",
        ),
        "More waves?": choice(
            "Arms that do not fit on the node together are measured in waves.",
            {f"$wave + 1 < $waves{which}": step for which, step in first_step.items()},
            default="ReleaseCapacity",
            assign={"wave": "{% $wave + 1 %}"},
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
            following="Succeeded",
        ),
        "Succeeded": {"Type": "Succeed", "Comment": "The output holds the verdict and where the report lies."},
    }


def _caught(error: str, following: str) -> list[dict[str, Any]]:
    return [{"ErrorEquals": [error], "Next": following}, TO_DIAGNOSIS]


def _after_failure(functions: Mapping[str, str]) -> dict[str, State]:
    """Diagnose, stop, release, fail. Each is retried, and if one fails the next still runs."""
    error = {"error": "{% $failure %}", "execution_started": "{% $states.context.Execution.StartTime %}"}
    stop = "StopArmsAfterFailure"
    states = {
        "Diagnose": task(
            functions["Diagnose"],
            comment="Keep logs, events and descriptions before anything is deleted, and name the cause in plain words.",
            payload=error,
            assign={"failure": "{% $states.result.Payload %}"},
            following=stop,
            retry=RETRY_DIAGNOSIS,
            catch=[{"ErrorEquals": ["States.ALL"], "Next": stop}],
        ),
        **waiting(
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
    return states
