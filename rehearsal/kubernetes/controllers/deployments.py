"""The controller of Deployments and of their ReplicaSets."""

import copy
import hashlib
import json
import time

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.objects import (
    Json,
    condition,
    controlled_by,
    dig,
    name_of,
    namespace_of,
    owner_reference,
    parse_time,
    set_condition,
    terminating,
)

_COMPONENT = "deployment-controller"
_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


class ReplicaSets(Controller):
    """Keeps as many pods as a ReplicaSet demands."""

    watches = (r.REPLICA_SETS, r.PODS, r.SERVICE_ACCOUNTS)

    def reconcile(self) -> None:
        for replica_set in self.store.list(r.REPLICA_SETS):
            if not terminating(replica_set):
                self._sync(replica_set)

    def _sync(self, replica_set: Json) -> None:
        active = [pod for pod in pods.owned_pods(self.cluster, replica_set) if pods.is_active(pod)]
        missing = replica_set["spec"]["replicas"] - len(active)
        if missing > 0:
            created = [pods.create_pod(self.cluster, replica_set) for _ in range(missing)]
            active += [pod for pod in created if pod is not None]
            if None in created:
                self.wake_in(5.0)
        for pod in sorted(active, key=_first_to_go)[: max(-missing, 0)]:
            self.cluster.delete(r.PODS, namespace_of(pod), name_of(pod))
            active.remove(pod)
        ready = sum(pods.is_ready(pod) for pod in active)
        status = {
            "replicas": len(active),
            "fullyLabeledReplicas": len(active),
            "readyReplicas": ready,
            "availableReplicas": ready,
        }
        status["observedGeneration"] = replica_set["metadata"]["generation"]
        self.cluster.modify(r.REPLICA_SETS, replica_set, lambda obj: obj.update(status=status))


def _first_to_go(pod: Json) -> tuple[bool, bool, float]:
    """Unscheduled pods go first, then unready ones, then the newest."""
    return bool(dig(pod, "spec", "nodeName")), pods.is_ready(pod), -parse_time(pod["metadata"]["creationTimestamp"])


class Deployments(Controller):
    """Brings a Deployment to its template, by Recreate or by RollingUpdate."""

    watches = (r.DEPLOYMENTS, r.REPLICA_SETS, r.PODS)

    def reconcile(self) -> None:
        for deployment in self.store.list(r.DEPLOYMENTS):
            if not terminating(deployment):
                self._sync(deployment)

    def _sync(self, deployment: Json) -> None:
        owned = [
            rs for rs in self.store.list(r.REPLICA_SETS, namespace_of(deployment)) if controlled_by(rs, deployment)
        ]
        wanted_hash = template_hash(deployment["spec"]["template"])
        current = next((rs for rs in owned if rs["metadata"]["labels"][_HASH] == wanted_hash), None)
        old = [rs for rs in owned if rs is not current]
        if deployment["spec"]["strategy"]["type"] == "Recreate":
            current = self._recreate(deployment, current, old, wanted_hash)
        else:
            current = self._roll(deployment, current, old, wanted_hash)
        self._report(deployment, current, old)

    def _recreate(self, deployment: Json, current: Json | None, old: list[Json], digest: str) -> Json | None:
        for replica_set in old:
            self._scale(deployment, replica_set, 0)
        if any(not pods.is_finished(pod) for rs in old for pod in pods.owned_pods(self.cluster, rs)):
            return current
        return self._ensure(deployment, current, digest, deployment["spec"]["replicas"])

    def _roll(self, deployment: Json, current: Json | None, old: list[Json], digest: str) -> Json:
        replicas, rolling = deployment["spec"]["replicas"], deployment["spec"]["strategy"]["rollingUpdate"]
        surge = _portion(rolling["maxSurge"], replicas, up=True)
        unavailable = _portion(rolling["maxUnavailable"], replicas, up=False)
        if not surge and not unavailable:
            unavailable = 1
        running = sum(rs["spec"]["replicas"] for rs in old)
        have = current["spec"]["replicas"] if current else 0
        room = max(replicas + surge - running - have, 0)
        current = self._ensure(deployment, current, digest, replicas if not running else min(replicas, have + room))
        ready = dig(current, "status", "readyReplicas", default=0) + sum(
            dig(rs, "status", "readyReplicas", default=0) for rs in old
        )
        spare = max(ready - (replicas - unavailable), 0)
        for replica_set in old:
            ready_here = dig(replica_set, "status", "readyReplicas", default=0)
            step = min(replica_set["spec"]["replicas"], replica_set["spec"]["replicas"] - ready_here + spare)
            spare = max(spare - step, 0)
            self._scale(deployment, replica_set, replica_set["spec"]["replicas"] - step)
        return current

    def _ensure(self, deployment: Json, current: Json | None, digest: str, replicas: int) -> Json:
        if current is not None:
            return self._scale(deployment, current, replicas)
        template = copy.deepcopy(deployment["spec"]["template"])
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[_HASH] = digest
        selector = copy.deepcopy(deployment["spec"]["selector"])
        selector.setdefault("matchLabels", {})[_HASH] = digest
        revision = str(int(deployment["metadata"].get("annotations", {}).get(_REVISION, "0")) + 1)
        name = f"{name_of(deployment)}-{digest}"
        metadata = {
            "name": name,
            "namespace": namespace_of(deployment),
            "labels": dict(labels),
            "annotations": {_REVISION: revision},
            "ownerReferences": [owner_reference(deployment)],
        }
        spec = {"replicas": replicas, "selector": selector, "template": template}
        created = self.cluster.create(
            r.REPLICA_SETS, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
        )

        def number(obj: Json) -> None:
            obj["metadata"].setdefault("annotations", {})[_REVISION] = revision

        self.cluster.modify(r.DEPLOYMENTS, deployment, number, subresource="")
        message = f"Scaled up replica set {name} from 0 to {replicas}"
        self.cluster.event(deployment, "Normal", "ScalingReplicaSet", message, component=_COMPONENT)
        return created

    def _scale(self, deployment: Json, replica_set: Json, replicas: int) -> Json:
        before = replica_set["spec"]["replicas"]
        if before == replicas:
            return replica_set
        scaled = self.cluster.modify(
            r.REPLICA_SETS, replica_set, lambda obj: obj["spec"].update(replicas=replicas), subresource=""
        )
        direction = "up" if replicas > before else "down"
        message = f"Scaled {direction} replica set {name_of(replica_set)} from {before} to {replicas}"
        self.cluster.event(deployment, "Normal", "ScalingReplicaSet", message, component=_COMPONENT)
        return scaled or replica_set

    def _report(self, deployment: Json, current: Json | None, old: list[Json]) -> None:
        def total(sets: list[Json], key: str) -> int:
            return sum(dig(rs, "status", key, default=0) for rs in sets)

        every = [*old, current] if current else old
        replicas = deployment["spec"]["replicas"]
        updated = total([current], "replicas") if current else 0
        available, present = total(every, "availableReplicas"), total(every, "replicas")
        complete = updated == replicas == available == present and current is not None

        def change(obj: Json) -> None:
            status = obj.setdefault("status", {})
            counts = {
                "replicas": present,
                "updatedReplicas": updated,
                "readyReplicas": available,
                "availableReplicas": available,
                "unavailableReplicas": max(replicas - available, 0),
            }
            for key, value in counts.items():
                if value:
                    status[key] = value
                else:
                    status.pop(key, None)
            status["observedGeneration"] = obj["metadata"]["generation"]
            conditions = status.get("conditions", [])
            enough = available >= replicas
            conditions = set_condition(
                conditions,
                "Available",
                "True" if enough else "False",
                reason="MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
                message=f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            )
            status["conditions"] = self._progress(obj, conditions, current, complete)

        self.cluster.modify(r.DEPLOYMENTS, deployment, change)

    def _progress(self, deployment: Json, conditions: list[Json], current: Json | None, complete: bool) -> list[Json]:
        name = name_of(current) if current else name_of(deployment)
        if complete:
            message = f'ReplicaSet "{name}" has successfully progressed.'
            return set_condition(conditions, "Progressing", "True", reason="NewReplicaSetAvailable", message=message)
        known = condition(deployment, "Progressing")
        since = (
            parse_time(known["lastTransitionTime"]) if known and known["reason"] == "ReplicaSetUpdated" else time.time()
        )
        left = since + deployment["spec"]["progressDeadlineSeconds"] - time.time()
        if left <= 0 or (known and known["reason"] == "ProgressDeadlineExceeded"):
            message = f'ReplicaSet "{name}" has timed out progressing.'
            return set_condition(conditions, "Progressing", "False", reason="ProgressDeadlineExceeded", message=message)
        self.wake_in(left)
        if known and known["reason"] != "ReplicaSetUpdated":
            conditions = [c for c in conditions if c["type"] != "Progressing"]
        message = f'ReplicaSet "{name}" is progressing.'
        return set_condition(conditions, "Progressing", "True", reason="ReplicaSetUpdated", message=message)


def _portion(value: int | str, total: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.rstrip("%")) * total
    return -(-share // 100) if up else share // 100


def template_hash(template: Json) -> str:
    """A name for a pod template, from the alphabet that Kubernetes uses."""
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
    return "".join("bcdfghjklmnpqrst"[int(char, 16)] for char in digest)
