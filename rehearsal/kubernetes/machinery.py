"""Create, change and delete objects by the API's rules. The HTTP server and the controllers use nothing else."""

import copy
import random
import uuid
from collections.abc import Callable

from rehearsal.kubernetes import (
    admission,
    defaults,
    deletion,
    errors,
    managed_fields,
    ownership,
    pod_security,
    quotas,
    schema,
    schema_check,
    schema_values,
    validation,
)
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.managed_fields import Owner
from rehearsal.kubernetes.objects import Json, dig, name_of, namespace_of, now, terminating, uid_of
from rehearsal.kubernetes.recorder import EventRecorder
from rehearsal.kubernetes.resources import Registry, Resource

_SERVER_SET = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_CONTROLLER = "kube-controller-manager"


def random_suffix() -> str:
    """A suffix of generated names, from the alphabet that Kubernetes uses."""
    return "".join(random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))


class Cluster:
    """The objects of one cluster."""

    def __init__(self) -> None:
        self.store = Store()
        self.registry = Registry()
        self.hooks = admission.Hooks()
        self.event = EventRecorder(self.store).record

    # -- create ---------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, obj: Json, *, manager: str = _CONTROLLER, dry_run: bool = False) -> Json:
        """Store an object and return it as stored. Raises 409 if it exists, another 4xx if it is not acceptable."""
        obj = self.admit_new(resource, obj)
        owner = owner_entry(resource, manager, "Update")
        obj["metadata"]["managedFields"] = managed_fields.write_owners(
            ownership.record_update(schema.schema_of(resource), None, obj, owner)
        )
        return self.insert(resource, obj, dry_run=dry_run)

    def admit_new(self, resource: Resource, obj: Json) -> Json:
        """`obj`, checked, completed and admitted."""
        node = schema.schema_of(resource)
        obj = schema_values.without_nulls(node, copy.deepcopy(obj))
        if "spec" in node["properties"] and not resource.is_custom:
            obj.setdefault("spec", {})
        causes = schema_check.check_types(resource, obj)
        metadata = obj.setdefault("metadata", {})
        for field in (*_SERVER_SET, "resourceVersion"):
            metadata.pop(field, None)
        if not metadata.get("name"):
            metadata["name"] = _generated_name(resource, metadata)
        if "status" in resource.subresources:
            obj.pop("status", None)
            causes = [cause for cause in causes if not cause["field"].startswith("status.")]
        if causes:
            raise errors.invalid(resource, metadata["name"], causes)
        if resource.namespaced:
            self._require_namespace(resource, obj)
        defaults.fill(resource, obj)
        self.hooks.admit(self.store, resource, obj)
        validation.check(self.store, resource, obj, None)
        pod_security.enforce(self.store, resource, obj)
        quotas.admit(self.store, resource, obj)
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
        """Replace the stored object by `obj`. Without a resourceVersion it overwrites any version.

        `as_subresource` is the subresource in managedFields if the main object is written through one (scale).
        """
        node = schema.schema_of(resource)
        obj = schema_values.without_nulls(node, copy.deepcopy(obj))
        if "spec" in node["properties"] and not resource.is_custom:
            obj.setdefault("spec", {})
        old = self.store.require(resource, namespace_of(obj), name_of(obj))
        if not resource.is_custom:
            schema_check.check_types(resource, obj)  # the status too, which is then put aside
        metadata = obj["metadata"]
        if not str(metadata.get("resourceVersion", "0")).isdecimal():
            message = f'strconv.ParseUint: parsing "{metadata["resourceVersion"]}": invalid syntax'
            raise errors.ApiError(500, "", message)
        if metadata.get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
            raise errors.modified(resource, name_of(obj))
        if metadata.get("uid", uid_of(old)) != uid_of(old):
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {uid_of(old)}"
            raise errors.conflict(resource, name_of(obj), why)
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        causes = [
            errors.invalid_value(f"metadata.{field}", "…", "field is immutable")
            for field in ("deletionTimestamp", "deletionGracePeriodSeconds")
            if metadata.get(field) and not terminating(old)
        ]
        if causes:
            raise errors.invalid(resource, name_of(obj), causes)
        for field in _SERVER_SET:
            metadata.pop(field, None)
            if field in old["metadata"]:
                metadata[field] = old["metadata"][field]
        obj = self._respect_status(resource, obj, old, subresource)
        schema_check.check(resource, obj)
        if not subresource:
            defaults.fill(resource, obj, old)
            validation.check(self.store, resource, obj, old)
        if record and resource is not r.EVENTS:
            owner = owner_entry(resource, manager, "Update", subresource or as_subresource)
            owners = ownership.record_update(schema.schema_of(resource), old, obj, owner)
            metadata = {**obj["metadata"], "managedFields": managed_fields.write_owners(owners)}
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
        """Remove a terminating object if it has no finalizers and no grace left."""
        metadata = obj["metadata"]
        waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if terminating(obj) and not waits and not dig(obj, "spec", "finalizers"):
            return self.store.remove(resource, namespace_of(obj), name_of(obj))
        return obj

    def modify(
        self, resource: Resource, obj: Json, change: Callable[[Json], None], *, subresource: str = "status"
    ) -> Json | None:
        """Apply `change` to a copy of the current version of `obj`. Returns None if it is gone, or if another object
        has its name now.
        """
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
        """Delete by the options of the request. Returns the object as it is afterwards (perhaps still terminating)."""
        options = options or {}
        obj = self.store.require(resource, namespace, name)
        deletion.check_preconditions(resource, obj, options)
        if dry_run:
            return obj
        changed = copy.deepcopy(obj)
        metadata = changed["metadata"]
        finalizer = deletion.propagation_finalizer(resource, options)
        if finalizer and finalizer not in metadata.get("finalizers", ()):
            metadata["finalizers"] = [*metadata.get("finalizers", ()), finalizer]
        grace = deletion.grace_period(resource, obj, options)
        if terminating(obj):
            grace = min(grace, metadata.get("deletionGracePeriodSeconds", 0))
        else:
            metadata["deletionTimestamp"] = deletion.later(grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if resource is r.NAMESPACES:
            changed["status"] = {**changed.get("status", {}), "phase": "Terminating"}
        return self._settle(resource, self.store.replace(resource, changed))

    def finalize_namespace(self, name: str) -> None:
        """Remove a terminating namespace if it is empty."""
        self.store.remove(r.NAMESPACES, "", name)


def _generated_name(resource: Resource, metadata: Json) -> str:
    """A name for an object without one; "" if it must have one. The server names limit ranges itself."""
    if metadata.get("generateName"):
        return str(metadata["generateName"]) + random_suffix()
    return str(uuid.uuid4()) if resource is r.LIMIT_RANGES else ""


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
        "owners": {(o.manager, o.operation, o.subresource, o.paths) for o in managed_fields.read_owners(obj)}
    }
