"""Notes when things really happened in a rehearsal's cluster: it watches the cluster and takes the time of each change.
Times in Kubernetes objects are whole seconds. As the waits are a fiftieth here, a second stands for nearly a minute of
a run on AWS.
"""

import contextlib
import http.client
import json
import ssl
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from specdecode import names
from specdecode.kubernetes.pods import Phase, is_ready, is_true, job_state

from rehearsal.cloud.kubernetes import Kubernetes
from tests.end_to_end.overhead.shares import Span

STEP_OF = {"compile": "Compile", "serving": "Serve", "smoke": "Smoke", "benchmark": "Benchmark"}
"""Component -> the state of the state machine that waits for its objects."""
PATHS = {
    "Job": f"/apis/batch/v1/namespaces/{names.NAMESPACE}/jobs",
    "Deployment": f"/apis/apps/v1/namespaces/{names.NAMESPACE}/deployments",
    "Pod": f"/api/v1/namespaces/{names.NAMESPACE}/pods",
    "Node": "/api/v1/nodes",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
}


@dataclass
class Observer:
    """Call `watch()` before the run; ask for the times after it."""

    kubernetes: Kubernetes
    moments: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """(what happened, kind, name) -> when it was first seen, in seconds since the epoch."""
    components: dict[str, str] = field(default_factory=dict)
    """Name of an object that the run made -> its component and wave."""

    def watch(self) -> None:
        """Begin to watch, until the cluster ends."""
        for kind, path in PATHS.items():
            threading.Thread(target=self._follow, args=(kind, path), daemon=True).start()

    def _follow(self, kind: str, path: str) -> None:
        request = urllib.request.Request(
            f"{self.kubernetes.url}{path}?watch=true", headers={"Authorization": f"Bearer {self.kubernetes.token}"}
        )
        context = ssl.create_default_context(cafile=str(self.kubernetes.ca_file))
        with (
            contextlib.suppress(OSError, http.client.HTTPException),  # the rehearsal is over
            urllib.request.urlopen(request, context=context) as stream,
        ):
            for line in stream:
                event = json.loads(line)
                self.note(kind, event["type"], event["object"], at=time.time())

    def note(self, kind: str, change: str, obj: dict[str, Any], *, at: float) -> None:
        """Note the time of everything that `obj` shows for the first time."""
        name = obj["spec"].get("nodeName") if kind == "ResourceSlice" else obj["metadata"]["name"]
        component = obj["metadata"].get("labels", {}).get(names.COMPONENT_LABEL)
        if component:
            self.components[name] = f"{component} {obj['metadata']['labels'].get(names.WAVE_LABEL, '')}"
        replicas = obj.get("spec", {}).get("replicas")
        happened = {
            "gone": change == "DELETED",
            "leaves": "deletionTimestamp" in obj["metadata"] or change == "DELETED",
            "made": True,
            "ready": (kind == "Pod" and is_ready(obj)) or (kind == "Node" and is_true(obj, "Ready")),
            "over": kind == "Job" and job_state(obj).phase is not Phase.ACTIVE,
            "one": kind == "NodePool" and names.is_held(name) and replicas == 1,
        }
        happened["none"] = kind == "NodePool" and replicas == 0 and ("one", kind, name) in self.moments
        for what, is_so in happened.items():
            if is_so:
                self.moments.setdefault((what, kind, name), at)

    def _all(self, what: str, kind: str, group: str = "") -> list[float]:
        return [
            at
            for (happened, of, name), at in self.moments.items()
            if (happened, of) == (what, kind) and self.components.get(name, "").startswith(group)
        ]

    def node(self, name: str) -> Span:
        """From the node `name` being Ready with its devices published, to the pool being at 0 replicas again."""
        usable = max(self.moments["ready", "Node", name], self.moments.get(("made", "ResourceSlice", name), 0))
        return Span("node", usable, max(self._all("none", "NodePool")))

    def spans(self) -> list[Span]:
        """Every Job, each wave's servers until all are ready, and each teardown."""
        found = [
            Span(STEP_OF[group.split()[0]], self.moments["made", "Job", name], self.moments["over", "Job", name])
            for name, group in self.components.items()
            if group.split()[0] in STEP_OF and ("over", "Job", name) in self.moments
        ]
        for group in sorted({group for group in self.components.values() if group.startswith("serving")}):
            found.append(
                Span("Serve", min(self._all("made", "Deployment", group)), max(self._all("ready", "Pod", group)))
            )
            wave = group.removeprefix("serving")
            pods = [at for part in ("serving", "benchmark", "smoke") for at in self._all("gone", "Pod", part + wave)]
            found.append(Span("StopArms", min(self._all("leaves", "Deployment", group)), max(pods)))
        return sorted(found, key=lambda span: span.started)
