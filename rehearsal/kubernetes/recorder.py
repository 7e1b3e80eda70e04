"""Events, as client-go's recorder writes them: a repeated Event increases its count."""

import time

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, name_of, namespace_of, now, uid_of


class EventRecorder:
    """Writes Events into the namespace of their object. Events on cluster-scoped objects go to `default`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str, str], str] = {}

    def record(self, about: Json, kind: str, reason: str, message: str, *, component: str) -> None:
        namespace = namespace_of(about) or "default"
        if self._store.get(r.NAMESPACES, "", namespace) is None:
            return
        key = (uid_of(about), reason, message)
        known = self._known.get(key)
        same = self._store.get(r.EVENTS, namespace, known) if known else None
        if same is not None:
            self._store.replace(r.EVENTS, {**same, "count": same["count"] + 1, "lastTimestamp": now()})
            return
        name = f"{name_of(about)}.{time.time_ns():x}"
        involved = {key: about[key] for key in ("apiVersion", "kind")} | {"name": name_of(about), "uid": uid_of(about)}
        involved |= {"namespace": namespace_of(about)} if namespace_of(about) else {}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
        }
        self._store.create(r.EVENTS, event)
        self._known[key] = name
