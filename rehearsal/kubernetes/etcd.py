"""The objects, their resource versions and their changes: an etcd in memory."""

import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rehearsal.kubernetes import errors
from rehearsal.kubernetes.objects import Json, name_of, namespace_of, now
from rehearsal.kubernetes.resources import Resource

HISTORY = 20_000
"""Number of changes that are kept for watches. Older resource versions are answered with 410, as after etcd's
compaction.
"""


@dataclass(frozen=True)
class Change:
    """One write. `type` is ADDED, MODIFIED or DELETED; `old` is the object before it."""

    version: int
    type: str
    resource: Resource
    object: Json
    old: Json | None = None


Subscriber = Callable[[Change], None]


class Store:
    """Objects by resource, namespace and name. Stored objects are never changed in place: copy, change, `replace`."""

    def __init__(self) -> None:
        self.version = 1
        self._objects: dict[Resource, dict[tuple[str, str], Json]] = defaultdict(dict)
        self._by_uid: dict[str, tuple[Resource, Json]] = {}
        self._history: deque[Change] = deque(maxlen=HISTORY)
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` on every change from now on. The returned function ends the subscription."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def since(self, version: int) -> Iterator[Change]:
        """Changes after `version`. Raises 410 if some of them are forgotten."""
        if self._history and version < self._history[0].version - 1:
            raise errors.gone(f"too old resource version: {version} ({self._history[0].version - 1})")
        newer = list(takewhile(lambda change: change.version > version, reversed(self._history)))
        return reversed(newer)

    def list_at(self, version: int, resource: Resource, namespace: str = "") -> "list[Json]":
        """The list as it was at `version`. Raises 410 if that is forgotten."""
        if version == self.version:
            return self.list(resource, namespace)
        found = {(namespace_of(obj), name_of(obj)): obj for obj in self.list(resource, namespace)}
        for change in reversed(list(self.since(version))):
            if change.resource is not resource or (namespace and namespace_of(change.object) != namespace):
                continue
            key = (namespace_of(change.object), name_of(change.object))
            if change.type == "ADDED":
                del found[key]
            else:
                assert change.old is not None
                found[key] = change.old
        return [found[key] for key in sorted(found)]

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._objects[resource].get((namespace, name))

    def require(self, resource: Resource, namespace: str, name: str) -> Json:
        found = self.get(resource, namespace, name)
        if found is None:
            raise errors.not_found(resource, name)
        return found

    def list(self, resource: Resource, namespace: str = "") -> "list[Json]":
        """Objects of a namespace, or of all namespaces with "". Sorted like etcd's keys."""
        items = self._objects[resource].items()
        return [obj for (ns, _), obj in sorted(items, key=lambda kv: kv[0]) if not namespace or ns == namespace]

    def by_uid(self, uid: str) -> tuple[Resource, Json] | None:
        return self._by_uid.get(uid)

    def resources(self) -> Sequence[Resource]:
        """Resources that have objects."""
        return [resource for resource, objects in self._objects.items() if objects]

    def create(self, resource: Resource, obj: Json) -> Json:
        key = (namespace_of(obj), name_of(obj))
        if key in self._objects[resource]:
            raise errors.already_exists(resource, key[1])
        uid = obj["metadata"].get("uid") or str(uuid.uuid4())
        metadata = {**obj["metadata"], "uid": uid, "creationTimestamp": now(), "generation": 1}
        return self._write("ADDED", resource, {**obj, "metadata": metadata}, None)

    def replace(self, resource: Resource, obj: Json) -> Json:
        """Write `obj` over the stored one. Its resourceVersion must match; an unchanged object is not written."""
        old = self.require(resource, namespace_of(obj), name_of(obj))
        if obj["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
            raise errors.modified(resource, name_of(obj))
        if obj == old:
            return old
        return self._write("MODIFIED", resource, obj, old)

    def remove(self, resource: Resource, namespace: str, name: str) -> Json:
        """Remove the object at once. The caller has dealt with finalizers and grace."""
        old = self._objects[resource].pop((namespace, name))
        del self._by_uid[old["metadata"]["uid"]]
        return self._publish("DELETED", resource, old, old)

    def _write(self, kind: str, resource: Resource, obj: Json, old: Json | None) -> Json:
        return self._publish(kind, resource, obj, old)

    def _publish(self, kind: str, resource: Resource, obj: Json, old: Json | None) -> Json:
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        if kind != "DELETED":
            self._objects[resource][namespace_of(obj), name_of(obj)] = obj
            self._by_uid[obj["metadata"]["uid"]] = (resource, obj)
        change = Change(self.version, kind, resource, obj, old)
        self._history.append(change)
        for subscriber in tuple(self._subscribers):
            subscriber(change)
        return obj
