"""Step Functions: the states inside a Map or Parallel appear in the history, and end when the execution is stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ministack.services import stepfunctions


class Announced(dict[str, Any]):
    """The states of a branch; looking one up, which the interpreter does on entering it, adds it to the history."""

    def __init__(self, states: Mapping[str, Any], execution: dict[str, Any]) -> None:
        super().__init__(states)
        self._execution = execution

    def get(self, name: str, default: Any = None) -> Any:
        if self._execution["status"] != "RUNNING":
            raise stepfunctions._ExecutionError("States.Aborted", "The execution was stopped")
        state = super().get(name, default)
        if state is not None:
            details = {"stateEnteredEventDetails": {"name": name, "input": ""}}
            stepfunctions._add_event(self._execution, f"{state['Type']}StateEntered", details)
        return state


def announcing(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the emulator's runner of branches."""

    def run_sub_machine(
        states: Mapping[str, Any], start_at: str, input_data: Any, execution: dict[str, Any], ctx: dict[str, Any]
    ) -> Any:
        return run(Announced(states, execution), start_at, input_data, execution, ctx)

    return run_sub_machine


def only_while_running(fail: Callable[..., None]) -> Callable[..., None]:
    """Wrap the emulator's marking of an execution as failed: one that was stopped stays ABORTED."""

    def fail_execution(execution: dict[str, Any], error: str, cause: str) -> None:
        if execution["status"] == "RUNNING":
            fail(execution, error, cause)

    return fail_execution
