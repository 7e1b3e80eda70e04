"""Garbage collection by ownerReferences: background, foreground and orphaning."""

from collections import defaultdict

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.base import Controller
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, name_of, namespace_of, terminating, uid_of
from rehearsal.kubernetes.store import Change

_FOREGROUND = "foregroundDeletion"


class GarbageCollector(Controller):
    """Keeps an index of dependents, so that a deletion costs what depends on it and no more."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._dependents: dict[str, set[str]] = defaultdict(set)
        self._todo: set[str] = set()
        self.store.subscribe(self._index)

    def _index(self, change: Change) -> None:
        if change.resource is r.EVENTS:
            return
        uid = uid_of(change.object)
        old = _owners(change.old) if change.old else set()
        new = _owners(change.object) if change.type != "DELETED" else set()
        for owner in old - new:
            self._dependents[owner].discard(uid)
        for owner in new - old:
            self._dependents[owner].add(uid)
        if change.type == "DELETED":
            self._todo |= {uid, *old}
        elif terminating(change.object):
            self._todo |= {uid, *new}
        elif new - old:
            self._todo |= new
        if self._todo:
            self.wake()

    def reconcile(self) -> None:
        todo, self._todo = self._todo, set()
        for uid in todo:
            found = self.store.by_uid(uid)
            if found is None:
                self._collect(uid, "Background")
                self._dependents.pop(uid, None)
                continue
            resource, owner = found
            finalizers = owner["metadata"].get("finalizers", ())
            if not terminating(owner):
                continue
            if "orphan" in finalizers:
                self._orphan(uid)
                self._finish(resource, owner, "orphan")
            elif _FOREGROUND in finalizers:
                blocking = self._collect(uid, _FOREGROUND)
                if not blocking:
                    self._finish(resource, owner, _FOREGROUND)

    def _collect(self, owner: str, policy: str) -> int:
        """Delete the dependents that no other living owner keeps; how many of them are still there."""
        left = 0
        for uid in tuple(self._dependents.get(owner, ())):
            found = self.store.by_uid(uid)
            if found is None:
                continue
            resource, obj = found
            if any(other != owner and self.store.by_uid(other) for other in _owners(obj)):
                continue
            if not terminating(obj):
                propagation = "Foreground" if policy == _FOREGROUND else "Background"
                options = {"propagationPolicy": propagation}
                self.cluster.delete(resource, namespace_of(obj), name_of(obj), options)
            left += self.store.by_uid(uid) is not None
        return left

    def _orphan(self, owner: str) -> None:
        def forget(obj: Json) -> None:
            kept = [ref for ref in obj["metadata"]["ownerReferences"] if ref["uid"] != owner]
            obj["metadata"]["ownerReferences"] = kept
            if not kept:
                del obj["metadata"]["ownerReferences"]

        for uid in tuple(self._dependents.get(owner, ())):
            found = self.store.by_uid(uid)
            if found is not None:
                self.cluster.modify(*found, forget, subresource="")

    def _finish(self, resource: r.Resource, owner: Json, finalizer: str) -> None:
        def release(obj: Json) -> None:
            obj["metadata"]["finalizers"] = [f for f in obj["metadata"]["finalizers"] if f != finalizer]

        self.cluster.modify(resource, owner, release, subresource="")


def _owners(obj: Json) -> set[str]:
    return {ref["uid"] for ref in obj["metadata"].get("ownerReferences") or ()}
