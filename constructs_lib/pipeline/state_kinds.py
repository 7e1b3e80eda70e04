"""The kinds of tasks: one that answers at once, and a step that is called again until it is done."""

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
    "DamagedFolder",
    "SmokeFailed",
    "StartCheckFailed",
    "BenchmarkFailed",
    "AccuracyFailed",
    "HoldFailed",
    "TeardownStuck",
    "ReportFailed",
    "InvalidManifest",
    "QuotaExceeded",
    "NodeLost",
    "LeaseDamaged",
    "StateDamaged",
)
"""Errors of a step that another try cannot mend."""
LOOK_AGAIN = {"LookAgainIn15s": 15, "LookAgainIn60s": 60, "LookAgainIn300s": 300}
"""Errors by which a step says that it is not done yet -> seconds until it is called again."""
RETRIES_A_VISIT = 7
"""Retries for each of them until the state is left and entered again. specdecode.planning.events counts with it."""

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
"""Above the longest timeout of a function, so that only a lost invocation ends here. It counts for each try."""


def task(
    function: str,
    *,
    comment: str,
    following: str | None,
    payload: Mapping[str, Any] | None = None,
    assign: Mapping[str, Any] | None = None,
    retry: list[dict[str, Any]] = RETRY,
    catch: list[dict[str, Any]] | None = None,
) -> State:
    """Invoke a function with the run's id and `payload`; its answer is the state's output. Without `following` it ends
    the execution.
    """
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
        **({"Next": following} if following else {"End": True}),
    }
    if assign:
        state["Assign"] = dict(assign)
    return state


def waiting(
    name: str,
    function: str,
    *,
    comment: str,
    following: str,
    payload: Mapping[str, Any] | None = None,
    retry: list[dict[str, Any]] = RETRY,
    catch: list[dict[str, Any]] | None = None,
) -> State:
    """The step `name`, called again as long as its function ends with an error of LOOK_AGAIN: a retrier waits.

    After RETRIES_A_VISIT of a kind, a catcher enters the state again: the retrier of real errors counts over a whole
    visit, and gets its tries back (ADR 55).
    """
    looks = [
        {"ErrorEquals": [error], "IntervalSeconds": seconds, "MaxAttempts": RETRIES_A_VISIT, "BackoffRate": 1.0}
        for error, seconds in LOOK_AGAIN.items()
    ]
    another_visit = {"ErrorEquals": list(LOOK_AGAIN), "Next": name}
    return task(
        function,
        comment=comment,
        following=following,
        payload=payload,
        retry=[*looks, *retry],
        catch=[another_visit, *(catch or [TO_DIAGNOSIS])],
    )
