"""The kinds of states: a task that answers at once, a choice, and a step that is called again until it is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

State = dict[str, Any]

NEVER_AGAIN = (
    "InvalidExperiment",
    "AccessRefused",
    "NobodyTold",
    "StagingFailed",
    "PromptsRefused",
    "CapacityUnavailable",
    "LeaseLost",
    "CompileFailed",
    "ArtifactRefused",
    "ServeNotReady",
    "SmokeFailed",
    "BenchmarkFailed",
    "AccuracyFailed",
    "TeardownStuck",
    "ReportFailed",
    "InvalidManifest",
    "QuotaExceeded",
    "NodeLost",
    "LeaseDamaged",
    "StateDamaged",
)
"""Errors of a step that another try cannot mend."""

RETRY = [
    {"ErrorEquals": list(NEVER_AGAIN), "MaxAttempts": 0},
    {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 3,
        "MaxAttempts": 5,
        "BackoffRate": 2.0,
        "MaxDelaySeconds": 60,
        "JitterStrategy": "FULL",
    },
]
RETRY_CLEANUP = [
    {
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 5,
        "MaxAttempts": 8,
        "BackoffRate": 2.0,
        "MaxDelaySeconds": 120,
        "JitterStrategy": "FULL",
    }
]
RETRY_DIAGNOSIS = [{**RETRY[1], "MaxAttempts": 2}]
"""Fewer attempts: the node is held meanwhile, and a diagnosis that times out takes five minutes each time."""
TO_DIAGNOSIS = {
    "ErrorEquals": ["States.ALL"],
    "Assign": {"failure": "{% $states.errorOutput %}"},
    "Next": "Diagnose",
}
TASK_TIMEOUT_S = 330
"""Above the longest timeout of a function, so that only a lost invocation ends here."""


def task(
    function: str,
    *,
    comment: str,
    following: str,
    payload: Mapping[str, Any] | None = None,
    assign: Mapping[str, Any] | None = None,
    retry: list[dict[str, Any]] = RETRY,
    catch: list[dict[str, Any]] | None = None,
) -> State:
    """Invoke a function with the run's id and `payload`; its answer is the state's output."""
    state: State = {
        "Type": "Task",
        "Comment": comment,
        "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {
            "FunctionName": function,
            "Payload": {
                "run_id": "{% $states.context.Execution.Name %}",
                "execution_arn": "{% $states.context.Execution.Id %}",
                **(payload or {}),
            },
        },
        "Output": "{% $states.result.Payload %}",
        "TimeoutSeconds": TASK_TIMEOUT_S,
        "Retry": retry,
        "Catch": catch or [TO_DIAGNOSIS],
        "Next": following,
    }
    if assign:
        state["Assign"] = dict(assign)
    return state


def choice(comment: str, cases: Mapping[str, str], *, default: str, assign: Mapping[str, Any] | None = None) -> State:
    """Go to the state of the first JSONata condition that is true, and assign `assign`; else go to `default`."""
    then = {"Assign": dict(assign)} if assign else {}
    choices = [{"Condition": f"{{% {condition} %}}", **then, "Next": state} for condition, state in cases.items()]
    return {"Type": "Choice", "Comment": comment, "Choices": choices, "Default": default}


def waiting(
    name: str,
    function: str,
    *,
    comment: str,
    following: str,
    payload: Mapping[str, Any] | None = None,
    retry: list[dict[str, Any]] = RETRY,
    catch: list[dict[str, Any]] | None = None,
) -> dict[str, State]:
    """A step that is called again until it is done: a task, a choice and a wait."""
    asked, wait = f"{name} done?", f"{name}: wait"
    return {
        name: task(function, comment=comment, payload=payload, following=asked, retry=retry, catch=catch),
        asked: {
            "Type": "Choice",
            "Choices": [{"Condition": "{% $states.input.done %}", "Next": following}],
            "Default": wait,
        },
        wait: {
            "Type": "Wait",
            "Comment": "The step itself says how long; its deadline is the experiment's.",
            "Seconds": "{% $states.input.wait_s %}",
            "Next": name,
        },
    }
