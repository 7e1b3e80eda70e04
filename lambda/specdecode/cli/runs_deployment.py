"""The deployed pipeline as the command line sees it: Step Functions, the bucket and two functions. Never Kubernetes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from specdecode import aws, names, s3_keys
from specdecode.cli.output import EXIT_ENVIRONMENT, stop_with
from specdecode.experiment import Capacity, kept
from specdecode.planning import Plan
from specdecode.runs.cluster_view import ClusterView, PodView
from specdecode.runs.state import PLAN, RunState, load_state
from specdecode.store import Store

LONGEST_FUNCTION_S = 200
"""Seconds to wait for a function: the watchdog may take three minutes, and boto3 gives up after one."""
MAX_INPUT_BYTES = 256 * 1024
"""Most bytes of a StartExecution's input, in UTF-8."""


def session_of(region: str | None, profile: str | None) -> Any:
    """A session where the deployment is: in `region`, else where the checkout's file keeps it, else as anywhere."""
    return aws.session(region=region or kept.read(kept.checkout()).settings.get("region"), profile=profile)


def stack_named(cloudformation: Any, name: str) -> dict[str, Any] | None:
    """The stack as CloudFormation describes it. None if there is none."""
    try:
        return dict(cloudformation.describe_stacks(StackName=name)["Stacks"][0])
    except ClientError as error:
        if "does not exist" in error.response["Error"].get("Message", ""):
            return None
        raise


class FunctionFailed(Exception):
    """A function of the stack failed. The message has its error."""


@dataclass(frozen=True)
class Execution:
    """One run as Step Functions lists it."""

    run_id: str
    arn: str
    status: str
    started: str
    stopped: str | None
    error: str = ""
    cause: str = ""
    output: str = ""

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> "Execution":
        """From what Step Functions describes or lists."""
        stopped = item["stopDate"].isoformat(timespec="seconds") if item.get("stopDate") else None
        more = {name: item.get(name, "") for name in ("error", "cause", "output")}
        started = item["startDate"].isoformat(timespec="seconds")
        return cls(item["name"], item["executionArn"], item["status"], started, stopped, **more)


class Deployment:
    """The stack's outputs, and the calls that commands make with them."""

    def __init__(
        self, *, stack: str = names.STACK, region: str | None = None, profile: str | None = None, session: Any = None
    ) -> None:
        self.stack, self._given = stack, (region, profile, session)

    @cached_property
    def session(self) -> Any:
        """The session is made at its first use: a report from a folder needs no region."""
        region, profile, session = self._given
        return session or session_of(region, profile)

    def client(self, service: str) -> Any:
        return self.session.client(service)

    @cached_property
    def found_outputs(self) -> dict[str, str] | None:
        """Outputs of the stack. None if there is no such stack. Raises ClientError and BotoCoreError."""
        found = stack_named(self.client("cloudformation"), self.stack)
        return found and {item["OutputKey"]: item["OutputValue"] for item in found.get("Outputs", [])}

    @cached_property
    def outputs(self) -> dict[str, str]:
        """Outputs of the stack. Ends the command with 3 if there is none."""
        if self.found_outputs is None:
            where, hint = self.session.region_name, f"deploy it with: {kept.DEPLOY}"
            raise stop_with(f"there is no stack {self.stack} in {where} ({hint})", EXIT_ENVIRONMENT)
        return self.found_outputs

    @cached_property
    def store(self) -> Store:
        return Store(s3=self.client("s3"), bucket=self.outputs["BucketName"])

    @cached_property
    def capacity(self) -> Capacity:
        """How this deployment gets its node, and at what price."""
        return Capacity.model_validate_json(self.outputs.get("Capacity", "{}"))

    @property
    def claims(self) -> str:
        """What the names of its claim templates end in; as by default if no region says where it is."""
        try:
            return self.capacity.claims
        except aws.NoRegion:
            return ""

    def caller(self) -> str | None:
        """The caller: an ARN with role and session. None if AWS does not say."""
        try:
            return str(self.client("sts").get_caller_identity()["Arn"])
        except (ClientError, BotoCoreError):
            return None

    @cached_property
    def _states(self) -> Any:
        return self.client("stepfunctions")

    @property
    def machine(self) -> str:
        return self.outputs["StateMachineArn"]

    def start(self, run_id: str, request: dict[str, Any]) -> str:
        """Start an execution called `run_id`. Returns its ARN. Ends the command with 2 if the request is too large."""
        text = self.input_of(request)
        answer = self._states.start_execution(stateMachineArn=self.machine, name=run_id, input=text)
        return str(answer["executionArn"])

    def input_of(self, request: dict[str, Any]) -> str:
        """The request as an execution's input. Ends the command with 2 if it is too large."""
        text = json.dumps(request, ensure_ascii=False, separators=(",", ":"))
        if (size := len(text.encode())) > MAX_INPUT_BYTES:
            raise stop_with(
                f"the experiment is {size / 1024:.0f} KiB as an execution's input, of which Step Functions takes "
                f"{MAX_INPUT_BYTES // 1024}: split its cases into several runs, or put their prompts into a file and "
                "that into the bucket (`specdecode prompts add`)"
            )
        return text

    def executions(self, *, limit: int, status: str | None = None) -> Iterator[Execution]:
        """Executions, the newest first. With `status` only those in that state."""
        pages = self._states.get_paginator("list_executions").paginate(
            stateMachineArn=self.machine,
            PaginationConfig={"MaxItems": limit, "PageSize": min(limit, 100)},
            **({"statusFilter": status} if status else {}),
        )
        for page in pages:
            yield from map(Execution.of, page["executions"])

    def execution(self, run_id: str | None) -> Execution:
        """The run's execution, or the newest one. Ends the command with 2 if there is none."""
        if run_id is None:
            newest = next(self.executions(limit=1), None)
            if newest is None:
                raise stop_with("there is no run yet: start one with `specdecode run`")
            run_id = newest.run_id
        found = self.find(run_id)
        if found is None:
            raise stop_with(f"there is no run {run_id} (`specdecode runs` lists them)")
        return found

    def find(self, run_id: str) -> Execution | None:
        """The run's execution. None if Step Functions does not know it: it forgets runs after 90 days."""
        arn = f"{self.machine.replace(':stateMachine:', ':execution:')}:{run_id}"
        try:
            found = self._states.describe_execution(executionArn=arn)
        except ClientError as error:
            if error.response["Error"]["Code"] in {"ExecutionDoesNotExist", "InvalidArn"}:
                return None
            raise
        return Execution.of({**found, "name": run_id, "executionArn": arn})

    def events(self, arn: str, *, newest: int = 100) -> list[dict[str, Any]]:
        """The newest events of an execution, oldest first."""
        how = {"reverseOrder": True, "maxResults": newest, "includeExecutionData": True}
        return list(reversed(self._states.get_execution_history(executionArn=arn, **how)["events"]))

    def stop(self, arn: str) -> None:
        self._states.stop_execution(executionArn=arn, error="StoppedByUser", cause="specdecode stop")

    def state(self, run_id: str) -> RunState | None:
        return load_state(self.store, run_id)

    def plan(self, run_id: str) -> Plan | None:
        data = self.store.read(s3_keys.run_key(run_id, PLAN))
        return None if data is None else Plan.model_validate_json(data)

    def cluster(self) -> ClusterView:
        """The cluster now, by the inspect function. Ends the command with 3 if it fails."""
        try:
            return ClusterView.model_validate(self._invoke(self.outputs["InspectFunction"]))
        except FunctionFailed as error:
            raise stop_with(str(error), EXIT_ENVIRONMENT) from None

    def pods(self, run_id: str) -> tuple[PodView, ...] | None:
        """The run's pods now. None if they cannot be read; the rest of the run is shown all the same."""
        try:
            seen = ClusterView.model_validate(self._invoke(self.outputs["InspectFunction"]))
        except FunctionFailed:
            return None
        return tuple(pod for pod in seen.pods if pod.run == names.run_label(run_id))

    def reconcile(self) -> dict[str, Any]:
        """Run the watchdog once and wait for it. Returns what it found and did. Raises FunctionFailed."""
        return self._invoke(self.outputs["WatchdogFunction"])

    def _invoke(self, function: str) -> dict[str, Any]:
        waits = Config(read_timeout=LONGEST_FUNCTION_S, retries={"total_max_attempts": 1})
        try:
            answer = self.session.client("lambda", config=waits).invoke(FunctionName=function, Payload=b"{}")
            body: dict[str, Any] = json.loads(answer["Payload"].read() or b"{}")
        except (ClientError, BotoCoreError) as error:
            raise FunctionFailed(f"{function} cannot be asked: {error}") from None
        if answer.get("FunctionError"):
            raise FunctionFailed(f"{function} failed: {body.get('errorMessage', body)}")
        return body
