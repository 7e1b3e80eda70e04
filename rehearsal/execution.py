"""Start the deployed state machine and follow it, state by state, with the code of the `specdecode` command."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdecode.cli.runs_deployment import Deployment, Execution
from specdecode.cli.runs_view import current_step

from rehearsal.console import Progress, RunningStep
from rehearsal.servers import Services

POLL_S = 0.3


@dataclass(frozen=True, kw_only=True)
class Run:
    """An execution of the deployed state machine."""

    run_id: str
    arn: str
    deployment: Deployment
    services: Services

    def look(self) -> Execution:
        """The state of the execution now. Raises ChildFailed if a server of the rehearsal has ended."""
        self.services.check()
        return self.deployment.execution(self.run_id)

    def follow(self, progress: Progress, *, watching: Callable[[str, str], None] | None = None) -> Execution:
        """Wait for the end of the execution. Every state is a step of `progress`, with its last message. `watching` is
        called with each state and message.
        """
        name, message = "Start", ""
        while name:
            with progress.step(f"  {name}") as step:
                name, message = self._state(step, name, message, watching)
        return self.look()

    def _state(
        self, step: RunningStep, name: str, message: str, watching: Callable[[str, str], None] | None
    ) -> tuple[str, str]:
        """Wait until the execution leaves a state. Returns the next state and its first message; nothing if the
        execution has ended.
        """
        step.say(message)
        while True:
            running = self.look().status == "RUNNING"
            events = self.deployment.events(self.arn)
            found, said = current_step(events)
            if found and found != name and (running or found != "Failed"):
                step.say(outcome(events, name))
                return found, said or ""
            if found == name and said and said != step.message:
                step.say(said)
            if watching and running:
                watching(name, step.message)
            if not running:
                step.say(outcome(events, name))
                return "", ""
            time.sleep(POLL_S)


def outcome(events: Sequence[dict[str, Any]], name: str) -> str:
    """The message of a step's last answer; "" if it has none."""
    for event in reversed(events):
        exited = event.get("stateExitedEventDetails") or {}
        if exited.get("name") == name:
            output = json.loads(exited.get("output") or "null")
            return str(output.get("message", "")) if isinstance(output, dict) else ""
    return ""


def of(services: Services, started: Mapping[str, Any]) -> Run:
    """The run that `specdecode run --json` has started."""
    deployment = Deployment(session=services)
    return Run(run_id=started["run_id"], arn=started["execution_arn"], deployment=deployment, services=services)


def start(services: Services, request: Mapping[str, Any], *, run_id: str) -> Run:
    """Start an execution called `run_id`."""
    deployment = Deployment(session=services)
    arn = deployment.start(run_id, dict(request))
    return Run(run_id=run_id, arn=arn, deployment=deployment, services=services)
