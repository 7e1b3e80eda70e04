"""What the fault cases share: the running embedded cloud as they use it, and the rows that they write."""

import contextlib
import io
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from specdecode import names, s3_keys
from specdecode.cli.runs_deployment import Deployment, Execution
from specdecode.cli.runs_view import current_step
from specdecode.experiment import load_preset, prices
from specdecode.kubernetes.pods import container_statuses
from specdecode.records import RequestRecord
from specdecode.runs.lease import Lease, LeaseStore

from rehearsal import tools
from rehearsal.console import Progress
from rehearsal.execution import Run
from rehearsal.rehearse import Rehearsal, rehearsal
from rehearsal.servers import WAIT_SCALE
from tests.end_to_end.beside import Beside
from tests.end_to_end.overhead.shares import looks_of
from tests.patience import LONG_S

SMALL = {
    "workload.cases": ["repeat-line"],
    "workload.requests": 2,
    "workload.output_tokens": 32,
    "workload.rounds": 1,
}
LONG = SMALL | {"workload.requests": 500, "workload.output_tokens": 512}
WORKLOADS = {"apps/v1": ("deployments",), "batch/v1": ("jobs",), "v1": ("pods", "services", "configmaps")}


@contextlib.contextmanager
def quiet_rehearsal(settings: Mapping[str, str] | None = None) -> Iterator[Rehearsal]:
    """An embedded cloud that prints nothing, with nothing deployed. Nothing of it may be left in the end."""
    tools.check()
    with rehearsal(Progress(console=Console(file=io.StringIO(), width=160)), settings) as running:
        yield running
    assert running.left() == []
    running.forget()


@contextlib.contextmanager
def deployed(*, nodes: int = 1) -> Iterator[Rehearsal]:
    """The same, with both stacks and the models of the embedded pair."""
    with quiet_rehearsal({"nodes": str(nodes)} if nodes > 1 else None) as running:
        running.deploy()
        running.import_models(load_preset("rehearsal"))
        yield running


def looks(run: Run, step: str) -> int:
    """How often the execution has called the state's function."""
    pages = run.services.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=run.arn)
    events = [event for page in pages for event in page["events"]]
    return list(looks_of(events)).count(step)


@dataclass
class Cloud:
    """The rehearsal with what the cases share, and the rows of the table."""

    running: Rehearsal
    rows: list[tuple[str, ...]] = field(default_factory=list)
    beside: Beside | None = None
    """The run on the other node, which none of the following sees or touches."""
    frozen: list[int] = field(default_factory=list)
    """Processes that a case has stopped and not let go on."""

    @property
    def others(self) -> int:
        """Nodes of the run beside."""
        return sum(self._is_beside(claim.run_id) for claim in self.lease().holders)

    def _is_beside(self, run_id: str) -> bool:
        return bool(self.beside and self.beside.run and self.beside.run.run_id == run_id)

    def _touchable(self, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        label = self.beside.label if self.beside else ""
        return [each for each in objects if each["metadata"].get("labels", {}).get(names.RUN_LABEL, " ") != label]

    def start(self, name: str, changes: dict[str, Any] | None = None) -> Run:
        return self.running.start(name, {"experiment": "rehearsal", "set": changes or SMALL})

    def control(self, action: str, **body: Any) -> None:
        self.running.kubernetes.request("POST", f"/_rehearsal/{action}", body)

    def bought(self) -> int:
        """How many trn2 instances were ever launched."""
        return len(self._instances())

    def alive(self) -> list[dict[str, Any]]:
        """Those of them that EC2 still bills."""
        return [instance for instance in self._instances() if not instance.get("terminated")]

    def _instances(self) -> list[dict[str, Any]]:
        found = self.running.kubernetes.request("POST", "/_rehearsal/instances", {})["instances"]
        return [instance for instance in found if instance["instance_type"] == "trn2.48xlarge"]

    def listed(self, path: str) -> list[dict[str, Any]]:
        return list(self.running.kubernetes.request("GET", path)["items"])

    def pods(self, component: str) -> list[dict[str, Any]]:
        return self._touchable(self.all_pods(component))

    def all_pods(self, component: str) -> list[dict[str, Any]]:
        """Those of the run beside too."""
        selector = f"labelSelector={names.COMPONENT_LABEL}%3D{component}"
        return self.listed(f"/api/v1/namespaces/{names.NAMESPACE}/pods?{selector}")

    def kill(self, component: str, *, variant: str | None = None) -> bool:
        """Kill the running pods of a component (and of one arm); False if there is none yet."""
        found = [
            pod
            for pod in self.pods(component)
            if any("running" in container["state"] for container in container_statuses(pod))
            and variant in (None, pod["metadata"]["labels"].get(names.VARIANT_LABEL))
        ]
        for pod in found:
            self.control("kill", namespace=names.NAMESPACE, pod=pod["metadata"]["name"])
        return bool(found)

    def freeze(self, component: str) -> list[str]:
        """Stop the processes of a component's running containers; names of their pods, none if there are none yet."""
        return self._signal(component, signal.SIGSTOP)

    def thaw(self, component: str) -> list[str]:
        """Let them go on."""
        return self._signal(component, signal.SIGCONT)

    def _signal(self, component: str, number: signal.Signals) -> list[str]:
        reached = []
        for pod in self.pods(component):
            status = pod.get("status", {})
            for container in [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]:
                if "running" in container.get("state", {}):
                    pid = int(container["containerID"].removeprefix("process://"))
                    os.killpg(pid, number)
                    self.frozen.append(pid)
                    reached.append(pod["metadata"]["name"])
        return reached

    def kept(self, run: Run, *path: str) -> dict[str, bytes]:
        """What is stored below a folder of the run's, by key."""
        s3, root = self.running.services.client("s3"), s3_keys.run_key(run.run_id, *path) + "/"
        found = s3.list_objects_v2(Bucket=self.running.bucket, Prefix=root).get("Contents", [])
        return {item["Key"]: self.stored(item["Key"]) for item in found}

    @contextlib.contextmanager
    def waits(self, scale: float) -> Iterator[None]:
        """The state machine's waits take `scale` of their length meanwhile."""
        self._scale_waits(scale)
        try:
            yield
        finally:
            self._scale_waits(WAIT_SCALE)

    def _scale_waits(self, scale: float) -> None:
        body = json.dumps({"stepfunctions._SFN_WAIT_SCALE": scale}).encode()
        endpoint = f"{self.running.services.endpoint}/_ministack/config"
        with urllib.request.urlopen(endpoint, data=body, timeout=10) as answer:
            assert json.loads(answer.read())["applied"]

    def command(self, *arguments: str) -> str:
        """What `specdecode` prints, run as a user runs it; it must end well."""
        result = subprocess.run(
            [tools.ROOT / ".venv" / "bin" / "specdecode", *arguments],
            env=tools.environment(tools.aws_environment(self.running.services.endpoint)),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    @contextlib.contextmanager
    def denied(self, action: str | list[str], key: str) -> Iterator[None]:
        """The bucket's policy denies everybody `action` on the objects meanwhile."""
        s3, bucket = self.running.services.client("s3"), self.running.bucket
        before = s3.get_bucket_policy(Bucket=bucket)["Policy"]
        policy = json.loads(before)
        resource = f"arn:aws:s3:::{bucket}/{key}"
        policy["Statement"].append({"Effect": "Deny", "Principal": "*", "Action": action, "Resource": resource})
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
        try:
            yield
        finally:
            s3.put_bucket_policy(Bucket=bucket, Policy=before)

    @contextlib.contextmanager
    def throttled_cloudwatch(self) -> Iterator[None]:
        """CloudWatch takes no metric meanwhile."""
        switch = self.running.processes.folder / "aws" / "cloudwatch-throttles"
        switch.touch()
        try:
            yield
        finally:
            switch.unlink()

    def metric_samples(self, run: Run, metric: str) -> float:
        """How many samples of a metric, over both arms, CloudWatch has with times within the run."""
        found = run.services.client("stepfunctions").describe_execution(executionArn=run.arn)
        cloudwatch = self.running.services.client("cloudwatch")
        series = cloudwatch.list_metrics(Namespace=names.METRIC_NAMESPACE, MetricName=metric)["Metrics"]
        points = [
            point
            for one in series
            if len(one["Dimensions"]) == 2
            for point in cloudwatch.get_metric_statistics(
                Namespace=names.METRIC_NAMESPACE,
                MetricName=metric,
                Dimensions=one["Dimensions"],
                StartTime=found["startDate"],
                EndTime=found["stopDate"],
                Period=60,
                Statistics=["SampleCount"],
            )["Datapoints"]
        ]
        return sum(point["SampleCount"] for point in points)

    def forget(self, prefix: str) -> None:
        """Remove a finished folder's mark, so that it is made again."""
        s3, bucket = self.running.services.client("s3"), self.running.bucket
        for item in s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", []):
            if item["Key"].endswith(s3_keys.COMPLETE):
                s3.delete_object(Bucket=bucket, Key=item["Key"])

    def lease(self) -> Lease:
        slots = names.held_pools(names.MOST_NODES)
        return LeaseStore(s3=self.running.services.client("s3"), bucket=self.running.bucket, slots=slots).read()

    def workloads(self) -> list[str]:
        selector = f"labelSelector={names.RUN_LABEL}"
        found = []
        for version, plurals in WORKLOADS.items():
            root = "/api/v1" if version == "v1" else f"/apis/{version}"
            for plural in plurals:
                items = self._touchable(self.listed(f"{root}/namespaces/{names.NAMESPACE}/{plural}?{selector}"))
                found += [f"{plural}/{item['metadata']['name']}" for item in items]
        claims = self.listed(f"/apis/resource.k8s.io/v1/namespaces/{names.NAMESPACE}/resourceclaims")
        pods = self.listed(f"/api/v1/namespaces/{names.NAMESPACE}/pods")
        kept = {pod["metadata"]["name"] for pod in pods} - {pod["metadata"]["name"] for pod in self._touchable(pods)}
        claims = [item for item in claims if not {each["name"] for each in item["metadata"]["ownerReferences"]} & kept]
        return found + [f"resourceclaims/{item['metadata']['name']}" for item in claims]

    def until(self, condition: Callable[[], Any], *, what: str = "it") -> Any:
        deadline = time.monotonic() + LONG_S
        while time.monotonic() < deadline:
            self.running.services.check()
            if found := condition():
                return found
            time.sleep(0.2)
        raise AssertionError(f"{what} did not happen within {LONG_S} s")

    def until_step(self, run: Run, step: str) -> None:
        def reached() -> bool:
            name, _ = current_step(run.deployment.events(run.arn))
            assert run.look().status == "RUNNING", run.look().cause
            return name == step

        self.until(reached, what=f"{run.run_id} in {step}")

    def ended(self, run: Run) -> Execution:
        self.until(lambda: run.look().status != "RUNNING", what=f"the end of {run.run_id}")
        return run.look()

    def calm(self) -> None:
        """End what a case left, however it ended: the next one must find the node free."""
        self.control("faults", reset=True)
        for pid in self.frozen:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGCONT)
        self.frozen.clear()
        states = self.running.services.client("stepfunctions")
        machine = self.running.deployment.outputs()["StateMachineArn"]
        going = states.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]
        for item in going:
            if not self._is_beside(item["name"]):
                states.stop_execution(executionArn=item["executionArn"])
        left = self.running.replicas() != self.others or self.workloads()
        if left or any(not self._is_beside(claim.run_id) for claim in self.lease().claims):
            self.until(self._swept, what="a node that is free again")

    def _swept(self) -> bool:
        Deployment(session=self.running.services).reconcile()
        claims = [claim for claim in self.lease().claims if not self._is_beside(claim.run_id)]
        return not claims and not self.workloads() and self.running.replicas() == self.others

    def at_rest(self) -> None:
        """No money is being spent, and nothing of a run is left; but for the run beside."""
        self.until(lambda: not self.workloads(), what=f"the end of all workloads ({self.workloads()})")
        self.until(lambda: self.running.replicas() == self.others, what=f"{self.others} replicas")
        assert [claim for claim in self.lease().claims if not self._is_beside(claim.run_id)] == []

    def all_end(self, *errors: str) -> None:
        """A fault of what all runs share ends the run beside as well."""
        if self.beside:
            self.beside.ends_too(*errors)

    def stored(self, key: str) -> bytes:
        answer = self.running.services.client("s3").get_object(Bucket=self.running.bucket, Key=key)
        return bytes(answer["Body"].read())

    def diagnosis(self, run: Run) -> dict[str, Any]:
        return json.loads(self.stored(s3_keys.run_key(run.run_id, "diagnostics", "diagnosis.json")))

    def records(self, run: Run) -> dict[tuple[str, str], list[RequestRecord]]:
        """The uploaded records by variant and case."""
        s3, root = self.running.services.client("s3"), s3_keys.run_key(run.run_id, "raw") + "/"
        found = {}
        for item in s3.list_objects_v2(Bucket=self.running.bucket, Prefix=root).get("Contents", []):
            variant, _, case = item["Key"][len(root) :].removesuffix(".jsonl").partition("/")
            lines = self.stored(item["Key"]).splitlines()
            found[variant, case] = [RequestRecord.model_validate_json(line) for line in lines]
        return found

    def note_node(self, fault: str, where: str, run: Run, *, cause: str, lasted_s: float) -> None:
        """The row of a fault on a paid node, which `lasted_s` until the run's end: ten minutes at most."""
        price = prices.TRN2_48XLARGE.usd
        assert lasted_s <= 600, f"{fault}: {lasted_s:.0f} s"
        paid = f"; {lasted_s / 60:.1f} min from the fault to the end, ${lasted_s / 3600 * price:.2f}"
        self.note(fault, where, run, cause=cause, remark=paid)

    def note(self, fault: str, where: str, run: Run, *, cause: str = "", remark: str = "") -> None:
        end = run.look()
        seconds = 0.0
        found = run.services.client("stepfunctions").describe_execution(executionArn=run.arn)
        if found.get("stopDate"):
            seconds = (found["stopDate"] - found["startDate"]).total_seconds()
        self.rows.append((fault, where, end.status, cause, f"{seconds:.0f} s{remark}"))
