"""Step Functions: retries, states inside a Map, and executions that are redriven."""

import contextvars
import json
import random
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ministack.services import stepfunctions


class Announced(dict[str, Any]):
    """The states of a branch. The interpreter looks a state up when it enters it; that adds the state to the
    history.
    """

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
    """Wrap the emulator's marking of an execution as failed: a stopped execution stays ABORTED."""

    def fail_execution(execution: dict[str, Any], error: str, cause: str) -> None:
        if execution["status"] == "RUNNING":
            fail(execution, error, cause)

    return fail_execution


def starting(add_event: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the emulator's writer of events: a task is scheduled, and then it starts."""

    def add(execution: dict[str, Any], kind: str, details: dict[str, Any] | None = None) -> Any:
        event = add_event(execution, kind, details)
        if kind == "TaskScheduled" and details:
            started = {key: details["taskScheduledEventDetails"][key] for key in ("resourceType", "resource")}
            event = add_event(execution, "TaskStarted", {"taskStartedEventDetails": started})
        return event

    return add


def retrying(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the emulator's runner of tasks: it makes one try, and this retries as the States Language says.

    Each retrier counts its own retries, over the whole visit of the state. A pause has its MaxDelaySeconds and its
    jitter, and no try follows if the execution was stopped meanwhile.
    """

    def execute_task(state: Mapping[str, Any], given: Any, execution: dict[str, Any], ctx: dict[str, Any]) -> Any:
        once = {key: value for key, value in state.items() if key not in {"Retry", "Catch"}}
        counts: dict[int, int] = {}
        while True:
            try:
                return execute(once, given, execution, ctx)
            except stepfunctions._ExecutionError as error:
                retriers = state.get("Retry", [])
                retrier, index = stepfunctions._find_matching_retrier(retriers, error.error, counts)
                if retrier is None:
                    return _caught(state, error, given, ctx)
                stepfunctions._scaled_sleep(pause(retrier, counts.get(index, 0)))
                counts[index] = counts.get(index, 0) + 1
                if execution["status"] != "RUNNING":
                    raise stepfunctions._ExecutionError("States.Aborted", "The execution was stopped") from None

    return execute_task


def pause(retrier: Mapping[str, Any], retries: int) -> float:
    """Seconds until the next try, after so many retries by the same retrier (the States Language's names, defaults)."""
    delay = float(retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2.0) ** retries)
    delay = min(delay, retrier.get("MaxDelaySeconds", delay))
    return random.uniform(0, delay) if retrier.get("JitterStrategy") == "FULL" else delay


def _caught(state: Mapping[str, Any], error: Any, given: Any, ctx: dict[str, Any]) -> tuple[Any, str]:
    """The output of a task that failed for good, and the state of its catcher. Raises the error if none catches it."""
    catcher = stepfunctions._find_matching_catcher(state.get("Catch", []), error.error)
    if catcher is None:
        raise error
    language = stepfunctions._state_query_language(state, ctx)
    output = {"Error": error.error, "Cause": error.cause}
    return stepfunctions._apply_catcher(catcher, given, ctx, language, output), catcher["Next"]


class Redriving:
    """RedriveExecution, which the emulator does not have: an execution goes on with the state that did not succeed.

    The state gets the same input and the same variables; what was done before is not done again (Step Functions'
    guide, "Restarting state machine executions with redrive").
    """

    def __init__(self) -> None:
        self._contexts: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, int] = {}

    def remembering(self, execute: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the emulator's runner of tasks: an execution's variables are kept with its ARN."""

        def execute_task(
            state: Mapping[str, Any], given: Any, execution: dict[str, Any] | None, ctx: dict[str, Any]
        ) -> Any:
            if execution:
                self._contexts[execution["executionArn"]] = ctx
                ctx["Execution"].setdefault("RedriveCount", 0)
            return execute(state, given, execution, ctx)

        return execute_task

    def counting(self, describe: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
        """Wrap the emulator's DescribeExecution: it says how often an execution was redriven."""

        def describe_execution(given: dict[str, Any]) -> Any:
            status, headers, body = describe(given)
            if status != 200:
                return status, headers, body
            count = self._counts.get(given["executionArn"], 0)
            return stepfunctions.json_response({**json.loads(body), "redriveCount": count})

        return describe_execution

    def answering(self, handle: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Wrap the emulator's dispatcher."""

        async def handle_request(method: str, path: str, headers: Mapping[str, str], body: bytes, query: Any) -> Any:
            if headers.get("x-amz-target", "").endswith(".RedriveExecution"):
                return stepfunctions._finalize_response(self._redrive(json.loads(body)["executionArn"]))
            return await handle(method, path, headers, body, query)

        return handle_request

    def _redrive(self, arn: str) -> Any:
        ended, ctx = stepfunctions._executions.get(arn), self._contexts.get(arn)
        if ended is None:
            return stepfunctions.error_response_json("ExecutionDoesNotExist", f"Execution {arn} not found", 400)
        if ended["status"] in {"RUNNING", "SUCCEEDED"} or ctx is None:
            why = f"Execution is {ended['status']} and cannot be redriven"
            return stepfunctions.error_response_json("ExecutionNotRedrivable", why, 400)
        # Calls that the stopped execution still makes see its own record, which does not change any more.
        kept = {key: value for key, value in ended.items() if key not in {"error", "cause"}}
        events = list(ended["events"])
        execution = kept | {"status": "RUNNING", "stopDate": None, "output": None, "events": events}
        stepfunctions._executions[arn] = execution
        count = self._counts[arn] = self._counts.get(arn, 0) + 1
        details = {"executionRedrivenEventDetails": {"redriveCount": count}}
        redriven = stepfunctions._add_event(execution, "ExecutionRedriven", details)
        stepfunctions._emit_execution_status_event(execution)
        again = {"variables": dict(ctx["variables"]), "Execution": ctx["Execution"] | {"RedriveCount": count}}
        given = (_go_on, execution, ctx | again)
        run = contextvars.copy_context().run  # account and region of the request
        threading.Thread(target=run, args=given, daemon=True).start()
        return stepfunctions.json_response({"redriveDate": redriven["timestamp"]})


def _go_on(execution: dict[str, Any], ctx: dict[str, Any]) -> None:
    """Walk from the state that was entered last to the end, as the emulator walks from the first state."""
    machine = json.loads(stepfunctions._state_machines[execution["stateMachineArn"]]["definition"])
    entered = [
        event["stateEnteredEventDetails"] for event in execution["events"] if "stateEnteredEventDetails" in event
    ]
    name, given = entered[-1]["name"], json.loads(entered[-1]["input"])
    try:
        while name and execution["status"] == "RUNNING":
            given, name = _walk_one(machine["States"][name], name, given, execution, ctx)
        if execution["status"] == "RUNNING":
            ended = {"status": "SUCCEEDED", "output": json.dumps(given), "stopDate": stepfunctions.now_iso()}
            execution.update(ended)
            details = {"executionSucceededEventDetails": {"output": ended["output"]}}
            stepfunctions._add_event(execution, "ExecutionSucceeded", details)
            stepfunctions._emit_execution_status_event(execution)
    except stepfunctions._ExecutionError as error:
        stepfunctions._fail_execution(execution, error.error, error.cause)


def _walk_one(
    state: Mapping[str, Any], name: str, given: Any, execution: dict[str, Any], ctx: dict[str, Any]
) -> tuple[Any, str | None]:
    """Output of a state at the top level, and the name of the next one."""
    kind = state["Type"]
    ctx["State"] = {"Name": name, "EnteredTime": stepfunctions.now_iso(), "RetryCount": 0}
    details = {"name": name, "input": json.dumps(given)}
    stepfunctions._add_event(execution, f"{kind}StateEntered", {"stateEnteredEventDetails": details})
    if kind == "Fail":
        raise stepfunctions._ExecutionError(*stepfunctions._fail_state_error(state, given, ctx))
    if kind == "Succeed":
        output, following = given, None
    elif kind == "Task":
        output, following = stepfunctions._execute_task(state, given, execution, ctx)
    else:
        run = {"Choice": stepfunctions._execute_choice, "Wait": stepfunctions._execute_wait}[kind]
        output, following = run(state, given, ctx)
    details = {"name": name, "output": json.dumps(output)}
    stepfunctions._add_event(execution, f"{kind}StateExited", {"stateExitedEventDetails": details})
    return output, following
