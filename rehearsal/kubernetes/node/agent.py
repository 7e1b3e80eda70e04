"""The node agent: it runs the pods that the scheduler bound to its nodes, and ends those that are deleted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from rehearsal.kubernetes import errors
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.node import logs
from rehearsal.kubernetes.node.pod import PodWorker
from rehearsal.kubernetes.node.settings import NodeSettings
from rehearsal.kubernetes.objects import (
    Json,
    annotations_of,
    dig,
    name_of,
    namespace_of,
    now,
    set_condition,
    terminating,
    uid_of,
)
from rehearsal.kubernetes.software.workloads import NO_PROCESS

_DIAL_TIMEOUT = 30.0
"""Seconds after which the API server gives up reaching a kubelet."""


class NodeAgent(Controller):
    """One agent for all nodes."""

    watches = (r.PODS, r.NODES)

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(settings.cluster)
        self._settings = settings
        self._workers: dict[str, PodWorker] = {}
        self._finished: set[str] = set()
        self._forgetting = set[asyncio.Task[None]]()

    def reconcile(self) -> None:
        living = set()
        for pod in self.store.list(r.PODS):
            uid = uid_of(pod)
            living.add(uid)
            if not dig(pod, "spec", "nodeName"):
                continue
            node = self.store.get(r.NODES, "", pod["spec"]["nodeName"])
            if node is None:
                self._lost(pod)
            elif name_of(node) in self._settings.cut:
                continue
            elif terminating(pod):
                self._take_down(pod)
            elif NO_PROCESS in annotations_of(pod):
                self._pretend(pod)
            elif uid not in self._workers and not pods.is_finished(pod) and (address := _address_of(node)):
                self._workers[uid] = PodWorker(self._settings, pod, host_address=address, gone=self._gone)
        for uid in self._workers.keys() - living:
            worker = self._workers[uid]
            if uid in self._finished:
                self._forgetting.add(forgetting := asyncio.create_task(worker.forget()))
                forgetting.add_done_callback(self._forgetting.discard)
                del self._workers[uid]
                self._finished.discard(uid)
            else:
                worker.stop(0)

    def _take_down(self, pod: Json) -> None:
        worker = self._workers.get(uid_of(pod))
        if worker is None or uid_of(pod) in self._finished:
            self._delete_now(pod)
        else:
            worker.stop(pod["metadata"].get("deletionGracePeriodSeconds", 0))

    def _gone(self, pod: Json) -> None:
        """A worker has taken its pod down."""
        self._finished.add(uid_of(pod))
        self._delete_now(pod)
        self.wake()

    def _delete_now(self, pod: Json) -> None:
        current = self.store.get(r.PODS, namespace_of(pod), name_of(pod))
        if current is not None and uid_of(current) == uid_of(pod) and terminating(current):
            with contextlib.suppress(errors.ApiError):
                self.cluster.delete(r.PODS, namespace_of(pod), name_of(pod), {"gracePeriodSeconds": 0})

    def _lost(self, pod: Json) -> None:
        """The node is gone: its processes die at once, and the pod garbage collector removes the pod."""
        worker = self._workers.get(uid_of(pod))
        if worker is not None:
            worker.stop(0)
        self.cluster.delete(r.PODS, namespace_of(pod), name_of(pod), {"gracePeriodSeconds": 0})

    def _pretend(self, pod: Json) -> None:
        if dig(pod, "status", "phase") == "Running":
            return
        statuses = [
            {
                "name": c["name"],
                "image": c["image"],
                "imageID": c["image"],
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now()}},
            }
            for c in pod["spec"]["containers"]
        ]

        def run(obj: Json) -> None:
            status = obj.setdefault("status", {})
            status |= {"phase": "Running", "startTime": now(), "containerStatuses": statuses}
            for kind in ("Initialized", "ContainersReady", "Ready"):
                status["conditions"] = set_condition(status.get("conditions", []), kind, "True")

        self.cluster.modify(r.PODS, pod, run)

    def kill(self, pod: Json, container: str, reason: str) -> None:
        """Kill a running container (a fault)."""
        worker = self._workers.get(uid_of(pod))
        for found in worker.containers if worker else ():
            if not container or found.name == container:
                found.kill(reason)

    def evict(self, pod: Json) -> None:
        """Evict a running pod (a fault)."""
        worker = self._workers.get(uid_of(pod))
        if worker is not None:
            worker.evict()

    def cut(self, node: Json, *, since: str | None = None) -> None:
        """Cut off a node: the API server hears no more of its kubelet. Write what the node lifecycle controller writes
        then, and as the time `since`.
        """
        self._settings.cut.add(name_of(node))
        unknown = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}

        def away(obj: Json) -> None:
            obj["status"]["conditions"] = set_condition(obj["status"]["conditions"], "Ready", "Unknown", **unknown)
            if since is not None:
                next(c for c in obj["status"]["conditions"] if c["type"] == "Ready")["lastTransitionTime"] = since

        def unready(obj: Json) -> None:
            conditions = dig(obj, "status", "conditions", default=[])
            obj["status"]["conditions"] = set_condition(conditions, "Ready", "False", reason="NodeNotReady")

        taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
        taints = [*dig(node, "spec", "taints", default=[]), taint]
        self.cluster.modify(r.NODES, node, away)
        self.cluster.modify(r.NODES, node, lambda obj: obj["spec"].update(taints=taints), subresource="")
        for pod in self.store.list(r.PODS):
            if dig(pod, "spec", "nodeName") == name_of(node) and pods.is_active(pod):
                self.cluster.modify(r.PODS, pod, unready)

    async def logs(self, pod: Json, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The log of a container of `pod`. Raises 400 if there is none, as the kubelet does."""
        names = [c["name"] for c in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])]
        name = query.get("container") or (names[0] if len(names) == 1 else "")
        if not name and len(pod["spec"]["containers"]) == 1:
            name = pod["spec"]["containers"][0]["name"]
        if not name:
            raise errors.bad_request(
                f"a container name must be specified for pod {name_of(pod)}, choose one of: [{' '.join(names)}]"
            )
        if name not in names:
            raise errors.bad_request(f"container {name} is not valid for pod {name_of(pod)}")
        if NO_PROCESS in annotations_of(pod):
            yield b""
            return
        worker = self._workers.get(uid_of(pod))
        if dig(pod, "spec", "nodeName") in self._settings.cut:
            await asyncio.sleep(_DIAL_TIMEOUT)
            address = (
                f"https://{dig(pod, 'status', 'hostIP')}:10250/containerLogs/{namespace_of(pod)}/{name_of(pod)}/{name}"
            )
            raise errors.ApiError(500, "InternalError", f'Get "{address}": dial tcp: i/o timeout')
        if worker is not None and worker.is_evicted:
            raise errors.bad_request(f'container "{name}" in pod "{name_of(pod)}" is terminated')
        container = next((c for c in worker.containers if c.name == name), None) if worker else None
        previous = query.get("previous") == "true"
        log = (container.previous_log if previous else container.log) if container else None
        if log is None:
            if previous:
                raise errors.bad_request(f'previous terminated container "{name}" in pod "{name_of(pod)}" not found')
            reason = (
                container.state.get("waiting", {}).get("reason", "ContainerCreating")
                if container
                else "ContainerCreating"
            )
            raise errors.bad_request(f'container "{name}" in pod "{name_of(pod)}" is waiting to start: {reason}')
        async for chunk in logs.read(log, query):
            yield chunk

    async def stop(self) -> None:
        """End every pod at once."""
        for worker in self._workers.values():
            worker.stop(0)
        for uid, worker in self._workers.items():
            if uid not in self._finished:
                await worker.finished()


def _address_of(node: Json) -> str | None:
    """None: somebody made the node up, and it has no kubelet."""
    addresses = dig(node, "status", "addresses", default=())
    return next((each["address"] for each in addresses if each["type"] == "InternalIP"), None)
