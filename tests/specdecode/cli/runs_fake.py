"""A deployment without AWS for the commands about runs."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from specdecode.cli.runs_deployment import Deployment, Execution, FunctionFailed
from specdecode.experiment import Capacity, load_preset
from specdecode.runs.cluster_view import ClusterView, PodView
from specdecode.runs.lease import Claim, Lease
from specdecode.runs.state import RunState
from specdecode.store import Store

from tests.plans import plan_for
from tests.specdecode.steps.aws_fake import FakeS3

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
STARTED = (NOW - timedelta(minutes=90)).isoformat()
STATE = RunState(
    run_id="r", execution_arn="arn", experiment="rehearsal", started_at=NOW, held_since=NOW - timedelta(hours=1)
)
PLAN = plan_for(load_preset("rehearsal"))
RUNNING = Execution(run_id="r", arn="arn:r", status="RUNNING", started=STARTED, stopped=None)


POD = PodView(
    name="r1-base",
    run="r",
    component="serving",
    variant="base",
    phase="Running",
    ready=False,
    restarts=2,
    problem="slow",
)


def entered(name: str) -> dict[str, Any]:
    return {"stateEnteredEventDetails": {"name": name}}


def exited(message: str | None) -> dict[str, Any]:
    """With the step's last answer; without a message, by the catcher that enters the state again."""
    output = {"Error": "LookAgainIn15s", "Cause": "{}"} if message is None else {"done": True, "message": message}
    return {"stateExitedEventDetails": {"name": "x", "output": json.dumps(output)}}


def failed(error: str, message: str) -> dict[str, Any]:
    """Of a try, as Step Functions writes the error of a function."""
    cause = json.dumps({"errorMessage": message, "errorType": error, "stackTrace": []})
    return {"taskFailedEventDetails": {"error": error, "cause": cause}}


class FakeDeployment:
    """A deployment with one run, which ends after some looks."""

    def __init__(self, **given: Any) -> None:
        self.stack = given.get("stack")
        FakeDeployment.last = self

    looks = 0
    reconciled = 0
    broken = False
    found: dict[str, Any]
    remembered = True
    asked_for_pods = 0
    seen_pods: tuple[PodView, ...] | None = (POD,)
    ends_as = "SUCCEEDED"
    capacity = Capacity()
    s3 = FakeS3()
    caller_is: str | None = "arn:aws:sts::111122223333:assumed-role/Admin/anna"
    started: list[tuple[str, dict[str, Any]]]
    stopped: list[str]
    held = True

    @property
    def store(self) -> Store:
        return Store(s3=self.s3, bucket="bucket")

    def caller(self) -> str | None:
        return self.caller_is

    def start(self, run_id: str, request: dict[str, Any]) -> str:
        type(self).started = [*self.started, (run_id, request)]
        return f"arn:{run_id}"

    input_of = Deployment.input_of

    def execution(self, run_id: str | None) -> Execution:
        FakeDeployment.looks += 1
        if FakeDeployment.looks < 3:
            return RUNNING
        over = {"status": self.ends_as, "stopped": NOW.isoformat()}
        failed = {"error": "ServeNotReady", "cause": "the engine crashed"} if self.ends_as == "FAILED" else {}
        return Execution(**{**vars(RUNNING), **over, **failed, "output": '{"verdict": "pays"}'})

    def find(self, run_id: str) -> Execution | None:
        if not FakeDeployment.remembered:
            return None
        return RUNNING if FakeDeployment.looks < 3 else Execution(**{**vars(RUNNING), "status": self.ends_as})

    def executions(self, *, limit: int) -> list[Execution]:
        return [RUNNING][:limit]

    def events(self, arn: str) -> list[dict[str, Any]]:
        return [entered("Serve"), failed("LookAgainIn15s", "1 of 2 arms are ready")]

    started_by: str | None = None

    def state(self, run_id: str) -> RunState | None:
        return STATE.model_copy(update={"started_by": self.started_by}) if run_id == "r" else None

    def plan(self, run_id: str) -> Any:
        return PLAN

    def stop(self, arn: str) -> None:
        type(self).stopped = [*self.stopped, arn]

    def reconcile(self) -> dict[str, Any]:
        """As the watchdog does it: a run that goes on keeps the node."""
        found = self.find("r")
        FakeDeployment.held &= not (self.stopped or found is None or found.status != "RUNNING")
        FakeDeployment.reconciled += 1
        if FakeDeployment.broken:
            raise FunctionFailed("Watchdog failed: Task timed out")
        return FakeDeployment.found

    def cluster(self) -> ClusterView:
        claim = Claim(run_id="r", execution_arn="arn:r", queued_at=NOW, held_since=NOW)
        return ClusterView(
            lease=Lease(holders=(claim,) if FakeDeployment.held else ()),
            replicas=int(self.held),
            nodes=("n (Ready)",),
            pods=(POD,) if FakeDeployment.held else (),
        )

    def pods(self, *run_ids: str) -> tuple[PodView, ...] | None:
        FakeDeployment.asked_for_pods += 1
        return FakeDeployment.seen_pods
