"""docs/reference/states.md: the state machine, from its definition."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from specdecode.steps import errors

from constructs_lib.pipeline.state_kinds import NEVER_AGAIN, TASK_TIMEOUT_S
from constructs_lib.pipeline.states import EXECUTION_TIMEOUT_S, definition
from tools.reference import page, table

INPUT = """## Input

{comment}

The same document is what `specdecode run` sends. What `experiment` may hold:
[experiments](../experiments.md#every-field)."""

STATES = """## States

A step that takes long is three states: the task, the question `… done?` and the wait `…: wait`, which goes back to
the task. The table has the tasks and the ends. A task that fails for good goes to the state in the last column."""

RETRIES = f"""## Errors and retries

A task ends after {TASK_TIMEOUT_S} s at the latest, an execution after {EXECUTION_TIMEOUT_S // 86400} days. These
errors say that trying again cannot help, and are never retried. Every other one (a function that was killed, an API
that is away) is retried with backoff; the column `tries` counts the first."""

WATCHDOG = """`States.ALL` does not catch a stop or a timeout of the whole execution. The watchdog, a function
outside the state machine, compares lease, node and workloads with the executions that run, whenever one ends badly
and every five minutes."""


def render() -> str:
    """The page."""
    machine = definition(defaultdict(lambda: "arn"))
    states: dict[str, dict[str, Any]] = machine["States"]
    shown = {name: state for name, state in states.items() if state["Type"] in ("Task", "Succeed", "Fail")}
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
        f"`More waves?` goes back to `Compile` (with `compile.on: cpu` to `Serve`) while a wave is left. "
        f"{states['More waves?']['Comment']}",
        RETRIES,
        table(("error", "meaning"), [(f"`{name}`", _meaning(name)) for name in NEVER_AGAIN]),
        WATCHDOG,
    )


def _next(name: str, states: dict[str, dict[str, Any]]) -> str:
    """The step after `name`, behind its choice."""
    following = states[name].get("Next")
    if following == f"{name} done?":
        following = states[following]["Choices"][0]["Next"]
    return f"`{following}`" if following else "end"


def _tries(state: dict[str, Any]) -> str:
    rules = [rule for rule in state.get("Retry", []) if rule["MaxAttempts"]]
    return str(1 + rules[0]["MaxAttempts"]) if rules else ""


def _caught(state: dict[str, Any]) -> str:
    return ", ".join(f"`{rule['Next']}`" for rule in state.get("Catch", []))


def _meaning(name: str) -> str:
    return " ".join((getattr(errors, name).__doc__ or "").split())
