"""Garbage collection by ownerReferences: background, foreground and orphaning."""

from collections import defaultdict
from collections.abc import Iterator

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.etcd import Change
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, name_of, namespace_of, terminating, uid_of

_FOREGROUND = "foregroundDeletion"


class GarbageCollector(Controller):
    """It keeps an index of dependents, so a deletion costs time only for the dependents."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._dependents: dict[str, set[str]] = defaultdict(set)
        self._todo: set[str] = set()
        """Uids of owners that are deleted or being deleted."""
        self._unproven: set[str] = set()
        """Uids of objects whose owners were not looked up yet."""
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
            self._unproven.add(uid)
            self._todo |= {owner for owner in new if self._is_terminating(owner)}
        if self._todo or self._unproven:
            self.wake()

    def reconcile(self) -> None:
        todo, self._todo = self._todo, set()
        unproven, self._unproven = self._unproven, set()
        for uid in unproven:
            self._collect_unless_owned(uid)
        for uid in todo:
            found = self.store.by_uid(uid)
            if found is None:
                for dependent in self._dependents.pop(uid, ()):
                    self._collect_unless_owned(dependent)
                continue
            resource, owner = found
            finalizers = owner["metadata"].get("finalizers", ())
            if not terminating(owner):
                continue
            if "orphan" in finalizers:
                self._orphan(uid)
                self._finish(resource, owner, "orphan")
            elif _FOREGROUND in finalizers and not self._collect_blocking(uid):
                self._finish(resource, owner, _FOREGROUND)

    def _collect_unless_owned(self, uid: str) -> None:
        """Delete an object in the background if none of its owners exists."""
        found = self.store.by_uid(uid)
        if found is None or not (references := _references(found[1])):
            return
        if not any(self._is_there(reference, found[1]) for reference in references):
            self._delete(*found, "Background")

    def _collect_blocking(self, owner: str) -> int:
        """Delete the dependents of `owner`, whose deletion is in the foreground. Returns how many that block it still
        exist. All are deleted at once; the owner does not wait for those that do not block (processTransitions in
        pkg/controller/garbagecollector/graph_builder.go of kubernetes/kubernetes).
        """
        left = 0
        for resource, obj in self._dependents_of(owner):
            references = _references(obj)
            blocks = any(ref["uid"] == owner and ref.get("blockOwnerDeletion") for ref in references)
            kept = any(ref["uid"] != owner and self._is_there(ref, obj) for ref in references)
            if not kept:
                self._delete(resource, obj, "Foreground")
                left += blocks and self.store.by_uid(uid_of(obj)) is not None
        return left

    def _delete(self, resource: r.Resource, obj: Json, policy: str) -> None:
        if not terminating(obj):
            self.cluster.delete(resource, namespace_of(obj), name_of(obj), {"propagationPolicy": policy})

    def _dependents_of(self, owner: str) -> Iterator[tuple[r.Resource, Json]]:
        for uid in tuple(self._dependents.get(owner, ())):
            found = self.store.by_uid(uid)
            if found is not None:
                yield found

    def _is_there(self, reference: Json, dependent: Json) -> bool:
        """Whether the owner of the reference exists: that uid, kind and name, in a namespace that the reference may
        mean.
        """
        found = self.store.by_uid(reference["uid"])
        if found is None:
            return False
        resource, owner = found
        said = (reference["apiVersion"], reference["kind"], reference["name"])
        place = namespace_of(dependent) if resource.namespaced else ""
        return said == (resource.api_version, resource.kind, name_of(owner)) and namespace_of(owner) == place

    def _is_terminating(self, uid: str) -> bool:
        found = self.store.by_uid(uid)
        return found is not None and terminating(found[1])

    def _orphan(self, owner: str) -> None:
        def forget(obj: Json) -> None:
            kept = [ref for ref in obj["metadata"]["ownerReferences"] if ref["uid"] != owner]
            obj["metadata"]["ownerReferences"] = kept
            if not kept:
                del obj["metadata"]["ownerReferences"]

        for resource, obj in self._dependents_of(owner):
            self.cluster.modify(resource, obj, forget, subresource="")

    def _finish(self, resource: r.Resource, owner: Json, finalizer: str) -> None:
        def release(obj: Json) -> None:
            obj["metadata"]["finalizers"] = [f for f in obj["metadata"]["finalizers"] if f != finalizer]

        self.cluster.modify(resource, owner, release, subresource="")


def _references(obj: Json) -> list[Json]:
    return list(obj["metadata"].get("ownerReferences") or ())


def _owners(obj: Json) -> set[str]:
    return {ref["uid"] for ref in _references(obj)}
