"""The cluster of a drawn run in virtual time: nodes that start, end and are billed, pods whose work takes time.

The bytes of artifacts, the check of them before a server starts, what a start check reads, and the records of a
benchmark are the real ones.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from specdecode import names, s3_keys
from specdecode.benchmark.enough import earlier
from specdecode.benchmark.results import Results
from specdecode.exit_codes import PERMANENT, Exit
from specdecode.experiment import Capacity
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.manifests import verified_copy
from specdecode.pod import tiny_model
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import PodError
from specdecode.records import raw_file

from tests.chaos.clock import Clock
from tests.chaos.folders import Folders
from tests.finished_folders import files_of, small_model, stored
from tests.specdecode.steps.test_report import record
from tests.specdecode.steps.test_side_by_side import SideBySide
from tests.specdecode.steps.world import POOL, World, _ended, _slice, made_ready

if TYPE_CHECKING:
    from tests.chaos.faults import Faults

MINUTES = {"staging": 2, "start-check": 1, "compile": 2, "smoke": 0.5, "benchmark": 3, "accuracy": 2, "serving": 2}
"""How long a pod's work takes; 1 if it is not here."""
DELIVERED_EVERY = timedelta(minutes=1)
"""As the benchmark stores the records of a long block."""


@dataclass
class Instance:
    """An EC2 instance, from its launch to its end. It is billed all the time."""

    slot: str
    name: str
    began: datetime
    ready_at: datetime
    hung_at: datetime | None = None
    drains_until: datetime | None = None
    ended: datetime | None = None


@dataclass
class Work:
    """What a pod's owner has done so far."""

    began: datetime
    failures: int = 0
    folder: tempfile.TemporaryDirectory[str] | None = None
    delivered: datetime | None = None
    known: set[tuple[str, str, int]] = field(default_factory=set)
    """Requests that its records have."""
    verified: bool = False
    """Whether the container that runs now has found all as it was stored."""
    disk: tempfile.TemporaryDirectory[str] | None = None
    """The pod's own, where a server's copies lie: a container that starts again finds it."""


class ChaosWorld(SideBySide):
    """`reached`: what the invariants compare with, in the words of whoever did it."""

    def __init__(self, clock: Clock, faults: Faults, *, nodes: int, theirs: bool) -> None:
        self.clock, self.faults, self.count, self.theirs = clock, faults, nodes, theirs
        self.instances: list[Instance] = []
        self.closed: frozenset[str] = frozenset()
        self.work: dict[str, Work] = {}
        self.folders: dict[str, dict[str, bytes]] = {}
        """Finished folders of the bucket, as they were stored."""
        self.history = Folders()
        self.delivered: dict[str, set[tuple[str, int, int]]] = {}
        """Run -> what a benchmark knows to be stored."""
        self.wrong: list[str] = []
        super().__init__()
        self.s3.before = self._before
        self.cluster.react = lambda: None  # controllers have their own time
        self.services = {"s3": self.s3, "stepfunctions": self.states, "cloudwatch": self.cloudwatch, "sts": self.sts}
        if theirs:
            self.rt.environ = {**self.rt.environ, names.RIGHTS_VARIABLE: names.NAMESPACE_RIGHTS}
            for key in [key for key in self.cluster.objects if key[0] in ("NodePool", "EC2NodeClass")]:
                del self.cluster.objects[key]
        self.slots = () if theirs else names.held_pools(Capacity(nodes=nodes).nodes)
        self._scaled: Counter[str] = Counter()

    @property
    def time(self) -> datetime:
        return self.clock.now

    @time.setter
    def time(self, value: datetime) -> None:
        """World sets it once, to its own beginning."""

    def _before(self, operation: str, key: str) -> None:
        if operation == "DeleteObject" and key in self.s3.objects and key.endswith(s3_keys.COMPLETE):
            self.history.aside[key.removesuffix(s3_keys.COMPLETE)] += 1

    def alive(self, slot: str) -> Instance | None:
        return next((each for each in self.instances if each.slot == slot and each.ended is None), None)

    # --- Karpenter and the nodes

    def _node(self) -> None:
        for slot in self.slots:
            pool = self.cluster.objects["NodePool", "", slot]
            if pool["spec"]["replicas"] != self._scaled[slot]:
                self._scaled[slot] = pool["spec"]["replicas"]
                told = {"subresource": "scale", "time": self.time.strftime("%Y-%m-%dT%H:%M:%SZ")}
                pool["metadata"]["managedFields"] = [told]
            if not self.faults.active("Karpenter stands still"):
                self._karpenter(slot, wanted=bool(pool["spec"]["replicas"]))
            if (node := self.alive(slot)) and node.ready_at <= self.time:
                self._show(node)

    def _karpenter(self, slot: str, *, wanted: bool) -> None:
        node = self.alive(slot)
        if node is None:
            if wanted and slot not in self.closed and not self.faults.active("no capacity"):
                self._launch(slot)
            return
        claim = self.cluster.objects.get(("NodeClaim", "", node.name))
        if node.drains_until is None and (not wanted or claim is None or "deletionTimestamp" in claim["metadata"]):
            node.drains_until = self.time + timedelta(minutes=self.faults.minutes(1, 5))
            self._claim(node, deletionTimestamp=self.time.isoformat())
        if node.drains_until and node.drains_until <= self.time:
            self.ends(node)

    def _launch(self, slot: str) -> None:
        ready = self.time + timedelta(minutes=self.faults.minutes(2, 8))
        node = Instance(slot, f"{slot}-node-{len(self.instances)}", self.time, ready)
        self.instances.append(node)
        self._claim(node)

    def _claim(self, node: Instance, **more: str) -> None:
        meta = {"name": node.name, "labels": {POOL: node.slot}, **more}
        self.cluster.put({"kind": "NodeClaim", "metadata": meta})

    def _show(self, node: Instance) -> None:
        labels = {POOL: node.slot, names.ACCELERATOR_LABEL: node.slot}
        going = {"deletionTimestamp": node.drains_until.isoformat()} if node.drains_until else {}
        shown = made_ready({"kind": "Node", "metadata": {"name": node.name, "labels": labels, **going}})
        if node.hung_at:
            ready = {"type": "Ready", "status": "Unknown", "lastTransitionTime": node.hung_at.isoformat()}
            shown["status"]["conditions"] = [{**ready, "message": "Kubelet stopped posting node status."}]
        self.cluster.put(shown)
        if names.kind_of(node.slot) == names.NODEPOOL and ("ResourceSlice", "", node.name) not in self.cluster.objects:
            self.cluster.put(_slice(self.devices, node.name))

    def ends(self, node: Instance) -> None:
        node.ended = self.time
        for kind in ("Node", "ResourceSlice", "NodeClaim"):
            self.cluster.remove(kind, node.name)

    # --- pods

    def _pod(self, owner: KubeObject, *, ready: bool) -> KubeObject:
        pod, uid = World._pod(self, owner, ready=False), owner["metadata"]["uid"]
        work = self.work.setdefault(uid, Work(self.time))
        slot = owner["spec"]["template"]["spec"].get("nodeSelector", {}).get(names.ACCELERATOR_LABEL)
        node = self.alive(slot) if slot in self.slots else None
        if slot in self.slots:
            name = node.name if node and node.ready_at <= self.time else None
            if pod["spec"].get("nodeName") != name:
                pod["spec"] = {"nodeName": name} if name else {}
                self._anew(work)
                work.disk = None
        if owner["kind"] == "Deployment":
            self._serve(owner, pod, work, able=slot not in self.slots or (bool(pod["spec"]) and not node.hung_at))
        return pod

    def _anew(self, work: Work) -> None:
        """The process is gone, and what a benchmark had on its disk. A server's copies stay: their pod does."""
        work.began, work.folder, work.verified, work.known = self.time, None, False, set()

    def _serve(self, owner: KubeObject, pod: KubeObject, work: Work, *, able: bool) -> None:
        conditions = pod["status"].get("conditions", [])
        pod["status"]["conditions"] = []
        if not able or self.time - work.began < timedelta(minutes=MINUTES["serving"]):
            return
        if not work.verified:
            if code := self._verify(owner, work):
                pod["status"]["containerStatuses"] = [_ended(code)]
                return
            work.verified = True
        made_ready(pod)
        if not conditions:
            self.cluster.logs[name_of(pod)] = "ready"

    def _verify(self, owner: KubeObject, work: Work) -> int:
        """Run the check of a serving pod's script on the bucket's bytes; its exit code."""
        script = owner["spec"]["template"]["spec"]["containers"][0]["command"][2]
        given = shlex.split(script[script.index("python3 -I -c ") :])[4]
        loaded = json.loads(given)["folders"]
        work.disk = work.disk or tempfile.TemporaryDirectory()
        mark = Path("local", "verified")
        with contextlib.chdir(work.disk.name):
            for gone in ("models", "compiled") if mark.exists() else ("models", "compiled", "local"):
                shutil.rmtree(gone, ignore_errors=True)
            for key, body in self.s3.objects.items():
                if any(key.startswith(f"{each['name']}/") for each in loaded):
                    Path(key).parent.mkdir(parents=True, exist_ok=True)
                    Path(key).write_bytes(body)
            with contextlib.redirect_stderr(io.StringIO()):
                try:
                    verified_copy.main(given)
                except SystemExit as ended:
                    return int(ended.code) if isinstance(ended.code, int) else 1
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
            copies = {each["name"]: files_of(Path("local", each["name"])) for each in loaded if each["copied"]}
        for folder in (f"{each['name']}/" for each in loaded):
            if copies.get(folder[:-1], self.stored(folder)) != self.folders.get(folder):
                self.wrong.append(f"an arm serves {folder}, which is not what was stored")
        return 0

    def stored(self, folder: str) -> dict[str, bytes]:
        return {
            key.removeprefix(folder): body
            for key, body in self.s3.objects.items()
            if key.startswith(folder) and not key.endswith(s3_keys.COMPLETE)
        }

    def _job(self, job: KubeObject) -> None:
        pod, work = self._pod(job, ready=False), self.work[job["metadata"]["uid"]]
        component = job["metadata"]["labels"][names.COMPONENT_LABEL]
        node = next((each for each in self.instances if each.name == pod["spec"].get("nodeName")), None)
        selected = job["spec"]["template"]["spec"].get("nodeSelector", {}).get(names.ACCELERATOR_LABEL) in self.slots
        if job.get("status", {}).get("conditions") or (selected and (node is None or node.hung_at)):
            return
        if component == "benchmark" and not self._measure(job, work):
            return
        if self.time - work.began < timedelta(minutes=MINUTES.get(component, 1)):
            return
        if component in ("staging", "compile", "accuracy", "benchmark") and (code := self.faults.refuses_pods()):
            self._fails(job, pod, work, code)
            return
        if component == "start-check" and (code := self._makes_tiny(job, pod)):
            self._fails(job, pod, work, code)
            return
        before = dict(self.s3.objects)
        job.pop("status", None)
        super()._job(job)
        new = self.s3.objects.items() - before.items()
        for prefix in [key.removesuffix(s3_keys.COMPLETE) for key, _ in new if key.endswith(s3_keys.COMPLETE)]:
            self.folders[prefix] = small_model(prefix)
            # Runs may make one folder at once: the pod that comes second finds it there (pod.stage, pod.fetch).
            self.history.made[prefix] += prefix + s3_keys.COMPLETE not in before
            for key in [key for key in self.s3.objects if key.startswith(prefix)]:
                del self.s3.objects[key]
            self.s3.objects |= stored(prefix, self.folders[prefix])

    def _makes_tiny(self, job: KubeObject, pod: KubeObject) -> int:
        """Make tiny models after those of the bucket, as a start check's first container; its exit code."""
        script = job["spec"]["template"]["spec"]["initContainers"][0]["command"][2]
        with tempfile.TemporaryDirectory() as root, contextlib.chdir(root), contextlib.redirect_stdout(io.StringIO()):
            for prefix in (word for word in shlex.split(script) if word.startswith("models/")):
                try:
                    tiny_model.make(Bucket("bucket", self.s3), prefix, layers=1, is_head=False)
                except PodError as error:
                    self.cluster.logs[name_of(pod)] = f"specdecode: error {error.code}: {error}"
                    return int(error.code)
        return 0

    def _measure(self, job: KubeObject, work: Work) -> bool:
        """Go on measuring, and store the records now and then. Returns whether all is measured and stored."""
        text = self.cluster.objects["ConfigMap", names.NAMESPACE, name_of(job)]["data"]["spec.json"]
        spec = BenchmarkSpec.model_validate_json(text)
        blocks = [(arm.variant, case.name) for arm in spec.arms for case in spec.workload.cases]
        if work.folder is None:
            if self.faults.refuses_pods():
                self._anew(work)
                return False
            work.folder, work.delivered = tempfile.TemporaryDirectory(), self.time
            for path in (raw_file(variant, case, 0) for variant, case in blocks):
                if body := self.s3.objects.get(s3_keys.run_prefix(spec.run_id) + path):
                    Results(Path(work.folder.name), run_id=spec.run_id).write(path, body)
            results = Results(Path(work.folder.name), run_id=spec.run_id)
            for (variant, case, _), there in earlier(results, spec)[0].measured.items():
                work.known |= {(variant, case, index) for index in there}
        results, wanted = Results(Path(work.folder.name), run_id=spec.run_id), spec.workload.requests.max
        passed = (self.time - work.began) / timedelta(minutes=MINUTES["benchmark"])
        share = int(min(1.0, passed) * wanted * len(blocks))
        asked = [(variant, case, index) for variant, case in blocks for index in range(wanted)]
        for key in (key for key in asked[:share] if key not in work.known):
            variant, case, index = key
            made = record(variant, case, index, 1.0 + index / 10, spec.run_id)
            results.append(made.model_copy(update={"round": spec.round}))
            work.known.add(key)
        is_over = passed >= 1
        if not is_over and self.time - (work.delivered or self.time) < DELIVERED_EVERY:
            return False
        if self.faults.refuses_pods():
            return False
        work.delivered = self.time
        for variant, case in blocks:
            if body := results.read(raw_file(variant, case, 0)):
                self.s3.objects[s3_keys.run_prefix(spec.run_id) + raw_file(variant, case, 0)] = body
                found = {(f"{variant}/{case}", each.round, each.index) for each in results.load(variant, case)}
                self.delivered.setdefault(spec.run_id, set()).update(found)
        return is_over

    # --- what happens to pods

    def kill(self, component: str, code: int = 137, *, log: str = "") -> bool:
        """End the running containers of a component with an exit code. Returns whether there was one."""
        killed = False
        for kind in ("Job", "Deployment"):
            for owner in self.cluster.all(kind):
                pod = self.cluster.objects.get(("Pod", names.NAMESPACE, f"{name_of(owner)}-0"))
                if owner["metadata"]["labels"].get(names.COMPONENT_LABEL) == component and pod is not None:
                    self.cluster.logs[name_of(pod)] = log
                    work = self.work.setdefault(owner["metadata"]["uid"], Work(self.time))
                    if kind == "Job" and not owner.get("status", {}).get("conditions"):
                        killed = True
                        self._fails(owner, pod, work, code)
                    elif kind == "Deployment":
                        killed = True
                        work.failures += 1
                        ended = {"terminated": {"exitCode": code, "reason": "Error"}}
                        status = {"name": "main", "restartCount": work.failures, "state": {"running": {}}}
                        pod["status"] = {"phase": "Running", "containerStatuses": [status | {"lastState": ended}]}
                        self._anew(work)
        return killed

    def _fails(self, job: KubeObject, pod: KubeObject, work: Work, code: int) -> None:
        """As the Job controller: another pod, until the backoff limit or a code of the failure policy."""
        work.failures += 1
        self._anew(work)
        job["status"] = {"failed": work.failures}
        if work.failures > job["spec"]["backoffLimit"] or code in PERMANENT:
            reason = "PodFailurePolicy" if code in PERMANENT else "BackoffLimitExceeded"
            pod["status"] = {"phase": "Failed", "containerStatuses": [_ended(code)]}
            job["status"]["conditions"] = [{"type": "Failed", "status": "True", "reason": reason}]
            if code != Exit.OK:
                self.cluster.logs.setdefault(name_of(pod), f"error {code}: S3")
