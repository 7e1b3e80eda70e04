"""Create, change and delete objects by the API's rules: the one way in, for the HTTP server and the controllers."""

import copy
import random
import time
import uuid
from collections.abc import Callable

from rehearsal.kubernetes import admission, defaults, errors, fields, queries, schema, validation
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.fields import Owner
from rehearsal.kubernetes.objects import Json, dig, is_true, labels_of, name_of, namespace_of, now, terminating, uid_of
from rehearsal.kubernetes.resources import Registry, Resource
from rehearsal.kubernetes.store import Store

_SERVER_SET = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_CONTROLLER = "kube-controller-manager"


def random_suffix(length: int = 5) -> str:
    """A suffix of generated names, from the alphabet that Kubernetes uses."""
    return "".join(random.choices("bcdfghjklmnpqrstvwxz2456789", k=length))


class Cluster:
    """The objects of one cluster."""

    def __init__(self) -> None:
        self.store = Store()
        self.registry = Registry()
        self.hooks = admission.Hooks()
        self._events: dict[tuple[str, str, str], str] = {}

    # -- create ---------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, obj: Json, *, manager: str = _CONTROLLER, dry_run: bool = False) -> Json:
        """The stored object. Raises 409 when it exists, 4xx when it is not acceptable."""
        obj = self.admit_new(resource, obj)
        owner = owner_entry(resource, manager, "Update")
        obj["metadata"]["managedFields"] = fields.write_owners(
            fields.record_update(schema.schema_of(resource), None, obj, owner)
        )
        return self.insert(resource, obj, dry_run=dry_run)

    def admit_new(self, resource: Resource, obj: Json) -> Json:
        """`obj` checked, completed and admitted, ready to be inserted."""
        obj = schema.without_nulls(copy.deepcopy(obj))
        metadata = obj.setdefault("metadata", {})
        for field in (*_SERVER_SET, "resourceVersion"):
            metadata.pop(field, None)
        if "name" not in metadata and "generateName" in metadata:
            metadata["name"] = metadata["generateName"] + random_suffix()
        if "status" in resource.subresources:
            obj.pop("status", None)
        schema.check(resource, obj)
        if resource.namespaced:
            self._require_namespace(resource, obj)
        defaults.fill(resource, obj)
        self.hooks.admit(self.store, resource, obj)
        validation.check(self.store, resource, obj, None)
        return obj

    def insert(self, resource: Resource, obj: Json, *, dry_run: bool = False) -> Json:
        if not dry_run:
            return self.store.create(resource, obj)
        if self.store.get(resource, namespace_of(obj), name_of(obj)):
            raise errors.already_exists(resource, name_of(obj))
        return {**obj, "metadata": {**obj["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": now()}}

    def _require_namespace(self, resource: Resource, obj: Json) -> None:
        namespace = self.store.require(r.NAMESPACES, "", namespace_of(obj))
        if terminating(namespace):
            name = namespace_of(obj)
            why = f"unable to create new content in namespace {name} because it is being terminated"
            raise errors.forbidden(resource, name_of(obj), why)

    # -- change ---------------------------------------------------------------------------------------------------

    def update(
        self,
        resource: Resource,
        obj: Json,
        *,
        subresource: str = "",
        manager: str = _CONTROLLER,
        dry_run: bool = False,
        record: bool = True,
        as_subresource: str = "",
    ) -> Json:
        """Replace the stored object by `obj`; without a resourceVersion whatever is stored is overwritten.

        `as_subresource` names the subresource in managedFields through which the main object is written (scale).
        """
        obj = schema.without_nulls(copy.deepcopy(obj))
        old = self.store.require(resource, namespace_of(obj), name_of(obj))
        metadata = obj["metadata"]
        if metadata.get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
            raise errors.modified(resource, name_of(obj))
        if metadata.get("uid", uid_of(old)) != uid_of(old):
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {uid_of(old)}"
            raise errors.conflict(resource, name_of(obj), why)
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        for field in _SERVER_SET:
            metadata.pop(field, None)
            if field in old["metadata"]:
                metadata[field] = old["metadata"][field]
        obj = self._respect_status(resource, obj, old, subresource)
        schema.check(resource, obj)
        if not subresource:
            defaults.fill(resource, obj)
            validation.check(self.store, resource, obj, old)
        if record and resource is not r.EVENTS:
            owner = owner_entry(resource, manager, "Update", subresource or as_subresource)
            owners = fields.record_update(schema.schema_of(resource), old, obj, owner)
            metadata = {**obj["metadata"], "managedFields": fields.write_owners(owners)}
            obj = {**obj, "metadata": metadata}
        if _without_bookkeeping(obj) == _without_bookkeeping(old):
            return old
        if obj.get("spec") != old.get("spec"):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        if dry_run:
            return obj
        return self._settle(resource, self.store.replace(resource, obj))

    def _respect_status(self, resource: Resource, obj: Json, old: Json, subresource: str) -> Json:
        if "status" not in resource.subresources:
            return obj
        if subresource == "status":
            return {**old, "status": obj.get("status", {})}
        kept = {key: value for key, value in obj.items() if key != "status"}
        return {**kept, "status": old["status"]} if "status" in old else kept

    def _settle(self, resource: Resource, obj: Json) -> Json:
        """A terminating object without finalizers and without grace left is gone."""
        metadata = obj["metadata"]
        waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if terminating(obj) and not waits and not dig(obj, "spec", "finalizers"):
            return self.store.remove(resource, namespace_of(obj), name_of(obj))
        return obj

    def modify(
        self, resource: Resource, obj: Json, change: Callable[[Json], None], *, subresource: str = "status"
    ) -> Json | None:
        """Apply `change` to a copy of the current version of `obj`; None when it is gone or is another by now."""
        current = self.store.get(resource, namespace_of(obj), name_of(obj))
        if current is None or uid_of(current) != uid_of(obj):
            return None
        changed = copy.deepcopy(current)
        change(changed)
        if changed == current:
            return current
        return self.update(resource, changed, subresource=subresource, record=False)

    # -- delete ---------------------------------------------------------------------------------------------------

    def delete(
        self, resource: Resource, namespace: str, name: str, options: Json | None = None, *, dry_run: bool = False
    ) -> Json:
        """Delete by the options of the request; the object as it is afterwards (perhaps still terminating)."""
        options = options or {}
        obj = self.store.require(resource, namespace, name)
        for key, actual in (("uid", uid_of(obj)), ("resourceVersion", obj["metadata"]["resourceVersion"])):
            wanted = dig(options, "preconditions", key)
            if wanted is not None and wanted != actual:
                why = f"Precondition failed: {key} in precondition: {wanted}, {key} in object meta: {actual}"
                raise errors.conflict(resource, name, why)
        if dry_run:
            return obj
        changed = copy.deepcopy(obj)
        metadata = changed["metadata"]
        finalizer = _propagation(resource, options)
        if finalizer and finalizer not in metadata.get("finalizers", ()):
            metadata["finalizers"] = [*metadata.get("finalizers", ()), finalizer]
        grace = _grace_period(resource, obj, options)
        if terminating(obj):
            grace = min(grace, metadata.get("deletionGracePeriodSeconds", 0))
        else:
            metadata["deletionTimestamp"] = _later(grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if resource is r.NAMESPACES:
            changed["status"] = {**changed.get("status", {}), "phase": "Terminating"}
        return self._settle(resource, self.store.replace(resource, changed))

    def blocking_budget(self, pod: Json) -> str | None:
        """Name of a PodDisruptionBudget that forbids evicting `pod` now, or None."""
        for budget in self.store.list(r.DISRUPTION_BUDGETS, namespace_of(pod)):
            if not queries.matches(budget["spec"].get("selector"), labels_of(pod)):
                continue
            covered = [
                p
                for p in self.store.list(r.PODS, namespace_of(pod))
                if queries.matches(budget["spec"]["selector"], labels_of(p))
                and is_true(p, "Ready")
                and not terminating(p)
            ]
            if len(covered) - 1 < _must_stay(budget["spec"], len(covered)):
                return name_of(budget)
        return None

    def finalize_namespace(self, name: str) -> None:
        """Remove a terminating namespace that is empty by now."""
        self.store.remove(r.NAMESPACES, "", name)

    # -- events ---------------------------------------------------------------------------------------------------

    def event(self, about: Json, kind: str, reason: str, message: str, *, component: str) -> None:
        """Record an Event on `about`; a repeated one counts up, as client-go's recorder does."""
        namespace = namespace_of(about) or "default"
        if self.store.get(r.NAMESPACES, "", namespace) is None:
            return
        involved = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": name_of(about),
            "uid": uid_of(about),
        }
        involved |= {"namespace": namespace_of(about)} if namespace_of(about) else {}
        key = (uid_of(about), reason, message)
        known = self._events.get(key)
        same = self.store.get(r.EVENTS, namespace, known) if known else None
        if same is not None:
            self.store.replace(r.EVENTS, {**same, "count": same["count"] + 1, "lastTimestamp": now()})
            return
        name = f"{name_of(about)}.{time.time_ns():x}"
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
        self.store.create(r.EVENTS, event)
        self._events[key] = name


def owner_entry(resource: Resource, manager: str, operation: str, subresource: str = "") -> Owner:
    return Owner(
        manager=manager,
        operation=operation,
        api_version=resource.api_version,
        subresource=subresource,
        time=now(),
        paths=frozenset(),
    )


def _without_bookkeeping(obj: Json) -> Json:
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}} | {
        "owners": {(o.manager, o.operation, o.subresource, o.paths) for o in fields.read_owners(obj)}
    }


def _propagation(resource: Resource, options: Json) -> str:
    """The finalizer that the deletion's propagation policy asks for, or "". A Job of batch/v1 orphans by default."""
    policy = options.get("propagationPolicy")
    if policy is None and "orphanDependents" in options:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        policy = "Orphan" if resource is r.JOBS else "Background"
    if policy not in ("Orphan", "Foreground", "Background"):
        message = f'invalid propagationPolicy "{policy}": supported values: "Orphan", "Background", "Foreground"'
        raise errors.bad_request(message)
    return {"Orphan": "orphan", "Foreground": "foregroundDeletion"}.get(policy, "")


def _grace_period(resource: Resource, obj: Json, options: Json) -> int:
    if resource is not r.PODS:
        return 0
    if not dig(obj, "spec", "nodeName") or dig(obj, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    grace = obj["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return int(grace)


def _must_stay(spec: Json, total: int) -> int:
    """How many of `total` pods a budget keeps up."""
    kind = "minAvailable" if "minAvailable" in spec else "maxUnavailable"
    value = spec.get(kind, 1)
    count = -(-total * int(value[:-1]) // 100) if isinstance(value, str) and value.endswith("%") else int(value)
    return count if kind == "minAvailable" else total - count


def _later(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
