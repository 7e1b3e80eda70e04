"""docs/reference/states.md: the state machine, from its definition."""

from collections import defaultdict
from typing import Any

from specdecode.kubernetes import client as of_the_cluster
from specdecode.planning.events import RETRIES_A_VISIT
from specdecode.runs import lease, state
from specdecode.steps import errors

from constructs_lib.pipeline.state_kinds import LOOK_AGAIN, NEVER_AGAIN, TASK_TIMEOUT_S
from constructs_lib.pipeline.states import EXECUTION_TIMEOUT_S, definition
from tools.reference import page, table

INPUT = """## Input

{comment}

The same document is what `specdecode run` sends. What `experiment` may hold:
[experiments](fields.md)."""

STATES = f"""## States

A step that takes long is called again and again. As long as it is not done, its function ends with an
error that says when to look again ({", ".join(f"`{name}`" for name in LOOK_AGAIN)}). Its message is the line of
progress: in the console, the last `TaskFailed` of the history shows it. A retrier waits. This is no failure, and no
alarm counts it; Lambda's own metric `Errors` and its logs do. After {RETRIES_A_VISIT + 1} looks the state is entered
again.

A task that fails for good goes to the state in the last column."""

RETRIES = f"""## Errors and retries

A task ends after {TASK_TIMEOUT_S} s at the latest, an execution after {EXECUTION_TIMEOUT_S // 86400} days. These
errors say that trying again cannot help, and are never retried. Every other one (a function that was killed, an API
that is away) is retried with backoff; the column `tries` counts the first, and each visit of a state has so many."""

WATCHDOG = """`States.ALL` does not catch a stop or a timeout of the whole execution. The watchdog, a function
outside the state machine, compares lease, node and workloads with the executions that run, whenever one ends badly
and every five minutes."""


def render() -> str:
    machine = definition(defaultdict(lambda: "arn"))
    states: dict[str, dict[str, Any]] = machine["States"]
    shown = {name: state for name, state in states.items() if state["Type"] in ("Task", "Fail")}
    return page(
        "States of the pipeline",
        "Which step does what, how often it is tried, and where its errors lead. What it is part of: "
        "[architecture](../architecture.md#the-pipeline).",
        INPUT.format(comment=machine["Comment"]),
        STATES,
        table(
            ("state", "what it does", "then", "tries", "on any error"),
            [
                (f"`{name}`", state["Comment"], _next(name, states), _tries(state), _caught(state))
                for name, state in shown.items()
            ],
        ),
        f"`More waves?` goes back to `Compile` while a wave is left. {states['More waves?']['Comment']}",
        RETRIES,
        table(("error", "meaning"), [(f"`{name}`", _meaning(name)) for name in NEVER_AGAIN]),
        WATCHDOG,
    )


def _next(name: str, states: dict[str, dict[str, Any]]) -> str:
    following = states[name].get("Next")
    return f"`{following}`" if following else "end"


def _tries(state: dict[str, Any]) -> str:
    rules = state.get("Retry")
    return str(1 + rules[-1]["MaxAttempts"]) if rules else ""


def _caught(state: dict[str, Any]) -> str:
    rules = (rule for rule in state.get("Catch", []) if rule["ErrorEquals"] != list(LOOK_AGAIN))
    return ", ".join(f"`{rule['Next']}`" for rule in rules)


def _meaning(name: str) -> str:
    (where, *_) = [each for each in (errors, of_the_cluster, lease, state) if hasattr(each, name)]
    return " ".join((getattr(where, name).__doc__ or "").split())
