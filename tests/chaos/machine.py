"""The deployed definition of the state machine, walked in virtual time: retriers, catchers, choices and variables.

Functions are called by their handlers. Each call of a service passes through `Invocation.call`, where faults are.
"""

from __future__ import annotations

import importlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from specdecode import names
from specdecode.kubernetes.client import Kubernetes, Response
from specdecode.kubernetes.connect import SEES
from specdecode.runs.lease import LeaseStore
from specdecode.steps import runtime
from specdecode.steps.runtime import Runtime

from constructs_lib.pipeline import states
from constructs_lib.pipeline.functions import FUNCTIONS
from tests.chaos.cluster import ChaosWorld
from tests.specdecode.steps.world import arn

DEFINITION = states.definition({name: name for name in FUNCTIONS})


class Killed(BaseException):
    """The function's process is gone. Its message is the error that Step Functions gets (no `except` of ours sees it).

    Lambda says Sandbox.Timedout and Runtime.ExitError (lambda/latest/dg, "Troubleshoot invocation issues").
    """


class Failed(Exception):
    """A call that ended badly: `error` and `cause` as Step Functions gets them."""

    def __init__(self, error: str, cause: str) -> None:
        super().__init__(f"{error}: {cause}")
        self.error, self.cause = error, cause


class Invocation:
    """One call of a function, from its first call of a service to its end. Whoever called it may be gone by then."""

    def __init__(self, world: ChaosWorld, name: str) -> None:
        self.world, self.name, self._began = world, name, world.clock.now
        self._dies_at = world.faults.kills(name)
        self._calls = 0

    def run(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The function's answer. Raises Failed."""
        module = importlib.import_module(f"specdecode.steps.{FUNCTIONS[self.name].module}")
        if self.world.faults.active("lambda throttles"):
            raise Failed("Lambda.TooManyRequestsException", "Rate Exceeded.")
        made = self._runtime()
        runtime.process_runtime = lambda: made  # read before the first call sleeps
        try:
            return module.handler(dict(payload), None)
        except Killed as killed:
            raise Failed(str(killed), "the function's process ended") from None
        except Exception as error:
            told = {"errorMessage": str(error), "errorType": type(error).__name__}
            raise Failed(type(error).__name__, json.dumps(told)) from None

    def call(self, service: str, operation: str, do: Callable[[], Any]) -> Any:
        """A call of a service. It takes a drawn time, in which others go on."""
        self.world.clock.sleep(random.uniform(0.02, 0.4))
        self._live()
        self._calls += 1
        if self._dies_at == self._calls:
            if random.random() < 0.5:
                do()
            raise Killed("Runtime.ExitError")
        answer = self.world.faults.answer(service, operation, do, self.world.clock.sleep)
        self._live()
        return answer

    def _live(self) -> None:
        dead = self._dies_at is not None and self._calls >= self._dies_at
        if dead or (self.world.clock.now - self._began).total_seconds() > FUNCTIONS[self.name].timeout_s:
            self._dies_at = 0
            raise Killed("Runtime.ExitError" if dead else "Sandbox.Timedout")

    def _runtime(self) -> Runtime:
        world, skew = self.world, self.world.faults.skew()
        clients = {name: Client(self, name, made) for name, made in world.services.items()}

        def send(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
            answer: Response = self.call(
                "kubernetes", method, partial(world.cluster.send, method, target, headers, body)
            )
            return answer

        sees = SEES.get(world.rt.environ.get(names.RIGHTS_VARIABLE, ""))
        made = Runtime(
            environ=world.rt.environ,
            clients=clients.__getitem__,
            kubernetes=lambda: Kubernetes(send, token=lambda renew: "token", sleep=world.clock.sleep, sees=sees),
            now=lambda: world.clock.now + skew,
        )
        for queue in ("lease", "queue"):
            known: LeaseStore = getattr(made, queue)
            known._sleep = world.clock.sleep
        return made


class Client:
    """A client of boto3 whose calls go through the invocation."""

    def __init__(self, invocation: Invocation, service: str, real: Any) -> None:
        self._invocation, self._service, self._real = invocation, service, real
        self.exceptions = getattr(real, "exceptions", None)

    def __getattr__(self, operation: str) -> Any:
        real = getattr(self._real, operation)
        return lambda **given: self._invocation.call(self._service, operation, partial(real, **given))

    def get_paginator(self, operation: str) -> Any:
        return self._invocation.call(self._service, operation, partial(self._real.get_paginator, operation))


class Execution:
    """One execution, from its start to its end. `ended` is called with it then."""

    def __init__(self, world: ChaosWorld, run_id: str, request: Any, ended: Callable[[Execution], None]) -> None:
        self.world, self.run_id, self._ended = world, run_id, ended
        self.error, self.cause = "", ""
        self.ended_at = world.clock.now
        """When it ended; its start before."""
        self.last: tuple[str, Any] | None = None
        """The function that was called last, and with what."""
        self.variables: dict[str, Any] = {}
        began = world.clock.now.isoformat()
        self._context = {"Execution": {"Name": run_id, "Id": arn(run_id), "StartTime": began, "Input": request}}

    @property
    def status(self) -> str:
        return self.world.states.executions[arn(self.run_id)]

    def walk(self) -> None:
        self.world.states.executions[arn(self.run_id)] = "RUNNING"
        name: str | None = DEFINITION["StartAt"]
        while name and self.status == "RUNNING":
            name = self._step(name, DEFINITION["States"][name])
        if self.status == "RUNNING":
            self.end("SUCCEEDED")

    def end(self, status: str) -> None:
        self.world.states.executions[arn(self.run_id)] = status
        self.ended_at = self.world.clock.now
        self._ended(self)

    def _step(self, name: str, state: Mapping[str, Any]) -> str | None:
        if state["Type"] == "Fail":
            self.error, self.cause = (str(self._value(state[key])) for key in ("Error", "Cause"))
            self.end("FAILED")
            return None
        if state["Type"] == "Choice":
            for choice in state["Choices"]:
                if self._value(choice["Condition"]):
                    self._assign(choice)
                    return str(choice["Next"])
            return str(state["Default"])
        return self._task(name, state)

    def _task(self, name: str, state: Mapping[str, Any]) -> str | None:
        payload, tries = self._value(state["Arguments"]["Payload"]), Counter[int]()
        self.last = state["Arguments"]["FunctionName"], payload
        while True:
            try:
                answer = Invocation(self.world, state["Arguments"]["FunctionName"]).run(payload)
            except Failed as failed:
                if self.status != "RUNNING":
                    return None
                index, retrier = next(
                    (n, each) for n, each in enumerate(state["Retry"]) if _matches(each, failed.error)
                )
                if tries[index] < retrier["MaxAttempts"]:
                    pause = retrier["IntervalSeconds"] * retrier["BackoffRate"] ** tries[index]
                    pause = min(pause, retrier.get("MaxDelaySeconds", pause))
                    tries[index] += 1
                    self.world.clock.sleep(random.uniform(0, pause) if "JitterStrategy" in retrier else pause)
                    if self.status != "RUNNING":
                        return None
                    continue
                catcher = next(each for each in state["Catch"] if _matches(each, failed.error))
                self._assign(catcher, errorOutput={"Error": failed.error, "Cause": failed.cause})
                return str(catcher["Next"])
            self._assign(state, result={"Payload": answer})
            return state.get("Next")

    def _assign(self, state: Mapping[str, Any], **states: Any) -> None:
        self.variables |= self._value(state.get("Assign", {}), **states)

    def _value(self, given: Any, **states: Any) -> Any:
        """What JSONata makes of it, as far as the definition uses JSONata: paths, sums, comparisons, one `?`."""
        if isinstance(given, Mapping):
            return {key: self._value(each, **states) for key, each in given.items()}
        if not isinstance(given, str) or not given.startswith("{%"):
            return given
        text = given[2:-2].strip()
        if found := re.fullmatch(r"\$exists\((.+)\) \? (.+) : '(.+)'", text):
            value = self._value(f"{{% {found[2]} %}}")
            return found[3] if value is None else value
        known = self.variables | {"states": {"context": self._context, **states}}
        names_of = re.sub(r"\$([\w.]+)", lambda path: f"at({path[1]!r})", text)

        def at(path: str) -> Any:
            found: Any = known
            for part in path.split("."):
                found = (found or {}).get(part)
            return found

        return eval(names_of, {"__builtins__": {}, "at": at})


def _matches(clause: Mapping[str, Any], error: str) -> bool:
    return error in clause["ErrorEquals"] or "States.ALL" in clause["ErrorEquals"]
