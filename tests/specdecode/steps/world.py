"""A whole small world for the steps: cluster, bucket, clock, and controllers that do what they are told to."""

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel
from specdecode import names
from specdecode.kubernetes.resources import KubeObject
from specdecode.runs.state import RunState, load_state
from specdecode.steps import (
    accuracy,
    acquire,
    advise,
    benchmark,
    diagnose,
    plan,
    release,
    report,
    serve,
    smoke,
    stage,
    stop_arms,
)
from specdecode.steps import compile as compiling
from specdecode.steps.errors import StepFailed
from specdecode.steps.runtime import Progress, Runtime, StepInput

from tests.finished_folders import stored
from tests.specdecode.steps.aws_fake import FakeCloudWatch, FakeS3, FakeStates, FakeSts
from tests.specdecode.steps.cluster_fake import FakeCluster

Step = Callable[[StepInput, Runtime], BaseModel]
WAITING: dict[str, Step] = {
    "StageModels": stage.stage,
    "AcquireCapacity": acquire.acquire,
    "StartCheck": compiling.start_check,
    "Compile": compiling.compile_arms,
    "Serve": serve.serve,
    "Smoke": smoke.smoke,
    "Benchmark": benchmark.benchmark,
    "Accuracy": accuracy.accuracy,
    "StopArms": stop_arms.stop_arms,
}
MACHINE = "arn:aws:states:us-east-2:000000000000:stateMachine:pipeline"
DEFAULT = {"experiment": "rehearsal", "set": {"accuracy": True, "workload.rounds": 1}}
"""What a run is asked for unless a test says otherwise: every step there is."""
LOOKS = 500
SCORES = b'{"results": {"gsm8k": {"exact_match,flexible-extract": 0.8, "exact_match_stderr,flexible-extract": 0.05}}}'
NODE = f"{names.NODEPOOL}-node"
POOL = "karpenter.sh/nodepool"
NODE_CLASS = "trn2-sdk-2-26"
DEVICES = 16


def arn(run_id: str) -> str:
    return MACHINE.replace("stateMachine", "execution") + f":{run_id}"


@dataclass
class World:
    """`react` plays kubelet, scheduler, Karpenter and Job controller. `trouble` maps a component to a pod's fate."""

    time: datetime = datetime(2026, 8, 1, 12, tzinfo=UTC)
    node_comes: bool = True
    slices_published: bool = True
    devices: int = DEVICES
    """Of the node."""
    trouble: dict[str, Callable[[KubeObject], None]] = field(default_factory=dict)
    job_fails: dict[str, int] = field(default_factory=dict)
    """Component -> exit code with which its Jobs end."""
    hung_at: datetime | None = None
    """When the node stopped to answer."""
    allocatable: dict[str, str] = field(default_factory=dict)
    """Of the node. Empty: it says nothing."""
    refused: dict[str, str] = field(default_factory=dict)
    """Component -> words with which the cluster refuses its pods."""
    pools: tuple[str, ...] = (names.NODEPOOL,)
    """Karpenter's, of a node each. The kubelet of a pod's node is the one that its selector names."""

    def __post_init__(self) -> None:
        self.s3, self.states, self.cloudwatch = FakeS3(), FakeStates(), FakeCloudWatch()
        self.cluster = FakeCluster(lambda: self.time)
        self.cluster.react = self.react
        for pool in self.pools:
            for obj in karpenter_objects(pool):
                self.cluster.put(made_ready(obj))
        self.cluster.put(made_ready({"kind": "Node", "metadata": _meta("system-node", {})}))
        self.sts = FakeSts(lambda: self.time)
        services = {"s3": self.s3, "stepfunctions": self.states, "cloudwatch": self.cloudwatch, "sts": self.sts}
        self.rt = Runtime(
            environ={
                "BUCKET": "bucket",
                "BUNDLE_URI": "s3://assets/bundle.zip",
                "BUNDLE_SHA256": "0" * 64,
                "AWS_REGION": "us-east-2",
                "CAPACITY": "{}",
                "OPERATIONS_NAMESPACE": "SpecDecode/Operations",
                "STATE_MACHINE_ARN": MACHINE,
                "POD_ROLE_ARN": "arn:aws:iam::000000000000:role/pods",
            },
            clients=lambda service: services[service],
            kubernetes=self.cluster.client,
            now=lambda: self.time,
        )

    # --- the state machine, in a few lines

    def given(self, run_id: str, **more: Any) -> StepInput:
        return StepInput(run_id=run_id, execution_arn=arn(run_id), **more)

    def plan(self, run_id: str = "run-1", request: Any = None) -> int:
        self.states.executions[arn(run_id)] = "RUNNING"
        request = DEFAULT if request is None else request
        planned = plan.plan(self.given(run_id, input=request), self.rt)
        self.adaptive = planned.adaptive
        return planned.waves

    def finish(self, step: str, run_id: str = "run-1", wave: int = 0) -> list[Progress]:
        """Ask a step until it is done, the clock moving by its waits."""
        seen: list[Progress] = []
        for _ in range(LOOKS):
            answer = WAITING[step](self.given(run_id, wave=wave), self.rt)
            assert isinstance(answer, Progress)
            seen.append(answer)
            if answer.done:
                return seen
            self.time += timedelta(seconds=answer.wait_s)
        raise AssertionError(f"{step} never ended: {seen[-1].message}")

    def run_through(self, run_id: str = "run-1", until: str = "StopArms", request: Any = None) -> None:
        """Plan and all waves up to and including the step `until` of the last wave."""
        waves = self.plan(run_id, request)
        order = list(WAITING)
        for step in order[:3]:
            self.finish(step, run_id)
            if step == until:
                return
        wave = 0
        while wave < waves:
            for step in order[3:]:
                self.finish(step, run_id, wave)
                if step == until and wave == waves - 1 and not self.adaptive:
                    return
            if self.adaptive:
                waves = advise.advise(self.given(run_id, wave=wave), self.rt).waves
            wave += 1

    def clean_up(self, error: Exception, run_id: str = "run-1") -> diagnose.Diagnosis:
        """What the state machine does after a failure: diagnose, stop, release; each may itself fail."""
        caught = {"Error": type(error).__name__, "Cause": json.dumps({"errorMessage": str(error)})}
        found = diagnose.Diagnosis(Error=caught["Error"], Cause=str(error))
        try:
            found = diagnose.diagnose(self.given(run_id, error=caught), self.rt)
        finally:
            with contextlib.suppress(StepFailed):
                self.finish("StopArms", run_id)
            release.release(self.given(run_id), self.rt)
        return found

    def record(self, run_id: str = "run-1") -> RunState:
        """What the run has noted of itself."""
        found = load_state(self.rt.store, run_id)
        assert found is not None
        return found

    def report(self, run_id: str = "run-1") -> dict[str, Any]:
        """Make the run's report; report.json."""
        report.report(self.given(run_id), self.rt)
        return json.loads(self.s3.objects[f"runs/{run_id}/report.json"])

    @property
    def replicas(self) -> int:
        return self.held[names.NODEPOOL]

    @property
    def held(self) -> dict[str, int]:
        """Pool -> its replicas."""
        return {obj["metadata"]["name"]: int(obj["spec"]["replicas"]) for obj in self.cluster.all("NodePool")}

    def workloads(self) -> list[str]:
        kinds = ("Job", "Deployment", "Service", "ConfigMap", "Secret", "Pod", "ResourceClaim")
        return [f"{kind}/{obj['metadata']['name']}" for kind in kinds for obj in self.cluster.all(kind)]

    # --- the controllers

    def react(self) -> None:
        self._node()
        for job in self.cluster.all("Job"):
            if not self._is_refused(job):
                self._job(job)
        for deployment in self.cluster.all("Deployment"):
            if not self._is_refused(deployment):
                self._pod(deployment, ready=True)
        self._collect()
        self._allocate()

    def _node(self) -> None:
        for pool, replicas in self.held.items():
            name, labels = f"{pool}-node", {POOL: pool, names.ACCELERATOR_LABEL: pool}
            if not replicas:
                self.cluster.remove("Node", name)
                self.cluster.remove("ResourceSlice", name)
            elif self.node_comes:
                node = made_ready({"kind": "Node", "metadata": _meta(name, labels)})
                node["status"]["allocatable"] = self.allocatable
                if self.hung_at:
                    ready = {"type": "Ready", "status": "Unknown", "lastTransitionTime": self.hung_at.isoformat()}
                    node["status"]["conditions"] = [{**ready, "message": "Kubelet stopped posting node status."}]
                self.cluster.put(node)
                has_devices = self.slices_published and names.kind_of(pool) == names.NODEPOOL
                if has_devices and ("ResourceSlice", "", name) not in self.cluster.objects:
                    self.cluster.put(_slice(self.devices, name))

    def _is_refused(self, owner: KubeObject) -> bool:
        """Whether its pod is refused: the controller tries each minute, and its Event tells."""
        words = self.refused.get(owner["metadata"]["labels"].get(names.COMPONENT_LABEL, ""))
        if words is None:
            return False
        name, job = owner["metadata"]["name"], owner["kind"] == "Job"
        about = {"kind": "Job", "name": name} if job else {"kind": "ReplicaSet", "name": f"{name}-6d4cf56db6"}
        event = {"kind": "Event", "metadata": _meta(f"{name}-refused", {}, names.NAMESPACE), "type": "Warning"}
        event |= {"reason": "FailedCreate", "message": f"Error creating: {words}", "involvedObject": about}
        first = owner["metadata"]["creationTimestamp"]
        self.cluster.put({**event, "firstTimestamp": first, "lastTimestamp": self.time.isoformat()})
        return True

    def _job(self, job: KubeObject) -> None:
        labels = job["metadata"]["labels"]
        component = labels[names.COMPONENT_LABEL]
        pod = self._pod(job, ready=False)
        if component in self.trouble or "status" in job:
            return
        if component in self.job_fails:
            code = self.job_fails[component]
            pod["status"] = {"phase": "Failed", "containerStatuses": [_ended(code)]}
            job["status"] = {"failed": 3, "conditions": [_condition("Failed", reason="BackoffLimitExceeded")]}
            return
        pod["status"] = {"phase": "Succeeded"}
        job["status"] = {"succeeded": 1, "conditions": [_condition("Complete")]}
        script = job["spec"]["template"]["spec"]["containers"][0]["command"][2]
        for word in script.split():
            if component in {"staging", "compile"} and word.startswith(("models/", "compiled/")):
                prefix = word.strip("'\"")
                if component == "staging" or prefix.startswith("compiled/"):
                    for key in [key for key in self.s3.objects if key.startswith(prefix)]:
                        del self.s3.objects[key]
                    self.s3.objects |= stored(prefix)
        if component == "accuracy":
            (prefix,) = re.findall(r"--prefix (\S+)", script)
            for arm in re.findall(r"--arm (\S+?)=", script):
                self.s3.objects[f"{prefix}{arm}.json"] = SCORES

    def _pod(self, owner: KubeObject, *, ready: bool) -> KubeObject:
        name = f"{owner['metadata']['name']}-0"
        known = self.cluster.objects.get(("Pod", names.NAMESPACE, name))
        template = owner["spec"]["template"]
        component = template["metadata"]["labels"][names.COMPONENT_LABEL]
        if known is None:
            labels = {**template["metadata"]["labels"], "job-name": owner["metadata"]["name"]}
            slot = template["spec"].get("nodeSelector", {}).get(names.ACCELERATOR_LABEL, names.NODEPOOL)
            spec = {"nodeName": f"{slot}-node"}
            pod = {"kind": "Pod", "metadata": _meta(name, labels, names.NAMESPACE), "spec": spec}
            known = self.cluster.put({**pod, "status": {"phase": "Running"}})
            known["metadata"]["ownerReferences"] = [{"kind": owner["kind"], "name": owner["metadata"]["name"]}]
            if component == "staging":
                known["spec"] = {}
            if ready:
                made_ready(known)
            for claim in template["spec"].get("resourceClaims", ()):
                self.cluster.put(_claim(name, claim["resourceClaimTemplateName"]))
        if component in self.trouble:
            self.trouble[component](known)
        return known

    def _collect(self) -> None:
        """What is owned goes with its owner, claims with their pods (and, as claims do, when the pod has ended)."""
        self.cluster.collect_garbage()
        owners = {obj["metadata"]["name"] for kind in ("Job", "Deployment") for obj in self.cluster.all(kind)}
        for pod in self.cluster.all("Pod"):
            if pod["metadata"]["ownerReferences"][0]["name"] not in owners:
                self.cluster.remove("Pod", pod["metadata"]["name"])
        pods = {pod["metadata"]["name"]: pod for pod in self.cluster.all("Pod")}
        for claim in self.cluster.all("ResourceClaim"):
            pod = pods.get(claim["metadata"]["ownerReferences"][0]["name"])
            if pod is None or pod["status"].get("phase") == "Succeeded":
                self.cluster.remove("ResourceClaim", claim["metadata"]["name"])

    def _allocate(self) -> None:
        """Each claim gets the first group of devices of its size that is free on its pod's node, or waits."""
        claims = self.cluster.all("ResourceClaim")
        nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName", NODE) for pod in self.cluster.all("Pod")}
        taken = {(result["pool"], result["device"]) for claim in claims for result in _results(claim)}
        for claim in (claim for claim in claims if not _results(claim)):
            asked = re.search(r"-(\d+)dev-", claim["spec"]["template"])
            size = int(asked[1]) if asked else DEVICES
            node = nodes.get(claim["metadata"]["ownerReferences"][0]["name"], NODE)
            groups = [[(node, f"neuron-{n}") for n in range(at, at + size)] for at in range(0, self.devices, size)]
            if free := next((group for group in groups if taken.isdisjoint(group)), None):
                results = [{"driver": "neuron.aws.com", "pool": pool, "device": device} for pool, device in free]
                claim["status"] = {"allocation": {"devices": {"results": results}}}
                taken.update(free)


def karpenter_objects(pool: str = names.NODEPOOL) -> list[KubeObject]:
    """EC2NodeClass and NodePool, without a status."""
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": NODE_CLASS}
    spec = {"replicas": 0, "template": {"spec": {"nodeClassRef": ref}}}
    return [
        {"kind": "EC2NodeClass", "metadata": {"name": NODE_CLASS}, "spec": {}},
        {"kind": "NodePool", "metadata": {"name": pool}, "spec": spec},
    ]


def _meta(name: str, labels: dict[str, str], namespace: str | None = None) -> dict[str, Any]:
    return {"name": name, "labels": labels, **({"namespace": namespace} if namespace else {})}


def _condition(kind: str, *, reason: str = "") -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": reason}


def made_ready(obj: KubeObject) -> KubeObject:
    obj.setdefault("status", {})["conditions"] = [_condition("Ready")]
    return obj


def _ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"name": "main", "image": "engine", "state": {"terminated": {"exitCode": code, "reason": reason}}}


def _slice(count: int, node: str = NODE) -> KubeObject:
    """The devices of a node, in groups of each size."""
    devices = [
        {
            "name": f"neuron-{number}",
            "attributes": {
                f"resource.aws.com/devicegroup{size}_id": {"string": f"group-{number // size}"}
                for size in (1, 4, 8, 16)
            },
        }
        for number in range(count)
    ]
    spec = {"driver": "neuron.aws.com", "nodeName": node, "pool": {"name": node}, "devices": devices}
    return {"kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


def _claim(pod: str, template: str) -> KubeObject:
    owner = {"ownerReferences": [{"kind": "Pod", "name": pod}]}
    metadata = {**_meta(f"{pod}-claim", {}, names.NAMESPACE), **owner}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": {"template": template}, "status": {}}


def _results(claim: KubeObject) -> list[dict[str, str]]:
    return list(claim["status"].get("allocation", {}).get("devices", {}).get("results", ()))
