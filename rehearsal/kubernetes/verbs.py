"""The verbs of the API, without HTTP."""

import copy
from collections.abc import Mapping

from rehearsal.kubernetes import (
    budgets,
    defaults,
    errors,
    managed_fields,
    merge_patches,
    ownership,
    queries,
    scaling,
    schema,
    schema_values,
    typed,
)
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.bodies import Warnings, as_asked, decode, is_dry_run, located
from rehearsal.kubernetes.machinery import Cluster, owner_entry
from rehearsal.kubernetes.objects import Json, dig
from rehearsal.kubernetes.requests import Target

APPLY = "application/apply-patch+yaml"
_UNKNOWN_FORMAT = "the body of the request was in an unknown format - accepted media types include: "
PATCHES = {
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    APPLY: "apply",
}


class Verbs:
    """Operations on a cluster. Each returns the object (or list, or Status) that the client gets."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._store = cluster.store

    def get(self, target: Target, query: Mapping[str, str] | None = None) -> Json:
        queries.not_of_the_future(query or {}, self._store.version)
        obj = self._store.require(target.resource, target.namespace, target.name)
        return scaling.scale_of(target.resource, obj) if target.subresource == "scale" else obj

    def list(self, target: Target, query: Mapping[str, str]) -> Json:
        """All pages of a list show the moment of the first page, as in etcd."""
        plural = target.resource.plural
        chosen = queries.object_selector(plural, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        queries.not_of_the_future(query, self._store.version)
        version, start = queries.continued(query.get("continue", "")) or (self._store.version, 0)
        limit = queries.number(query, "limit") or 0
        found = [obj for obj in self._store.list_at(version, target.resource, target.namespace) if chosen(obj)]
        page = found[start : start + limit] if limit else found[start:]
        metadata: Json = {"resourceVersion": str(version)}
        if start + len(page) < len(found):
            metadata["continue"] = f"{version}-{start + len(page)}"
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                metadata["remainingItemCount"] = len(found) - start - len(page)
        kind = {"kind": f"{target.resource.kind}List", "apiVersion": target.resource.api_version}
        return {**kind, "metadata": metadata, "items": page}

    def create(self, target: Target, body: Json, query: Mapping[str, str], manager: str, warnings: Warnings) -> Json:
        """If the client did not ask for strict validation, unknown fields are dropped from `body` and named in
        `warnings`.
        """
        if target.subresource == "eviction":
            return self._evict(target, body)
        if target.subresource == "binding":
            return self._bind(target, body)
        obj = as_asked(target, located(target, body), query, warnings)
        return self._cluster.create(target.resource, obj, manager=manager, dry_run=is_dry_run(query))

    def update(self, target: Target, body: Json, query: Mapping[str, str], manager: str, warnings: Warnings) -> Json:
        dry_run = is_dry_run(query)
        if target.subresource == "scale":
            return self._scale(target, body, manager, dry_run=dry_run)
        obj = as_asked(target, located(target, body, replaces=True), query, warnings)
        return self._cluster.update(
            target.resource, obj, subresource=target.subresource, manager=manager, dry_run=dry_run
        )

    def patch(
        self,
        target: Target,
        content_type: str,
        raw: bytes,
        query: Mapping[str, str],
        manager: str,
        warnings: Warnings,
    ) -> tuple[Json, bool]:
        """(the patched object, whether an apply created it)."""
        kind = PATCHES.get(content_type)
        if kind is None:
            supported = ", ".join(PATCHES)
            raise errors.unsupported_media_type(_UNKNOWN_FORMAT + supported)
        if kind == "apply":
            return self._apply(target, decode(raw), query)
        change = decode(raw)
        current = self.get(target)
        if not isinstance(change, dict):
            raise errors.bad_request("json: cannot unmarshal the patch into Go value of type map[string]interface {}")
        if kind == "merge" or target.resource.is_custom:
            if kind == "strategic":
                raise errors.unsupported_media_type(f"{_UNKNOWN_FORMAT}application/merge-patch+json, {APPLY}")
            changed = merge_patches.json_merge(current, change)
        else:
            changed = merge_patches.strategic_merge(schema.schema_of(target.resource), current, change)
        return self.update(target, copy.deepcopy(changed), query, manager, warnings), False

    def delete(self, target: Target, options: Json, query: Mapping[str, str]) -> Json:
        asked = {**options}
        if "propagationPolicy" in query:
            asked["propagationPolicy"] = query["propagationPolicy"]
        if (grace := queries.number(query, "gracePeriodSeconds")) is not None:
            asked["gracePeriodSeconds"] = grace
        dry_run = is_dry_run(query) or "All" in options.get("dryRun", ())
        obj = self._cluster.delete(target.resource, target.namespace, target.name, asked, dry_run=dry_run)
        if self._store.get(target.resource, target.namespace, target.name) is not None and not dry_run:
            return obj
        details = {"name": target.name, "kind": target.resource.plural, "uid": obj["metadata"]["uid"]}
        if target.resource.group:
            details["group"] = target.resource.group
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _apply(self, target: Target, body: Json, query: Mapping[str, str]) -> tuple[Json, bool]:
        manager = query.get("fieldManager")
        if not manager:
            message = (
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
            )
            raise errors.ApiError(422, "Invalid", message)
        node = schema.schema_of(target.resource)
        live = self._store.get(target.resource, target.namespace, target.name)
        if target.subresource != "scale" and isinstance(body, dict):
            typed.check(target, body, is_new=live is None)
        body = located(target, body)
        if dig(body, "metadata", "managedFields"):
            raise errors.bad_request("metadata.managedFields must be nil")
        resource, dry_run = target.resource, is_dry_run(query)
        if target.subresource == "scale":
            return self._scale(target, body, manager, dry_run=dry_run), False
        owner = owner_entry(resource, manager, "Apply", target.subresource)
        if live is None:
            if target.subresource:
                raise errors.not_found(resource, target.name)
            if uid := body["metadata"].get("uid"):
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise errors.conflict(resource, target.name, why)
            admitted = self._cluster.admit_new(resource, body)
            body = schema_values.without_nulls(node, body)
            merged, _ = ownership.apply(node, {"metadata": {}}, body, owner, complete=lambda obj: None, force=True)
            admitted["metadata"]["managedFields"] = merged["metadata"]["managedFields"]
            return self._cluster.insert(resource, admitted, dry_run=dry_run), True
        force = query.get("force") == "true"
        merged, conflicts = ownership.apply(
            node, live, body, owner, complete=lambda obj: defaults.fill(resource, obj), force=force
        )
        if conflicts:
            listed = [
                errors.cause(
                    managed_fields.show(path),
                    "FieldManagerConflict",
                    f'conflict with "{other}" using {resource.api_version}',
                )
                for other, path in conflicts
            ]
            why = "; ".join(f"{c['message']}: {c['field']}" for c in listed)
            raise errors.conflict(resource, target.name, why, listed)
        given, stored = body["metadata"], live["metadata"]
        causes = [
            errors.invalid_value(f"metadata.{field}", given[field], "field is immutable")
            for field in ("uid", "deletionGracePeriodSeconds")
            if given.get(field) and given[field] != stored.get(field)
        ]
        if causes:
            raise errors.invalid(resource, target.name, causes)
        if given.get("resourceVersion"):
            merged["metadata"]["resourceVersion"] = given["resourceVersion"]
        changed = self._cluster.update(
            resource, merged, subresource=target.subresource, manager=manager, dry_run=dry_run, record=False
        )
        return changed, False

    def _scale(self, target: Target, body: Json, manager: str, *, dry_run: bool) -> Json:
        resource = target.resource
        obj = self._store.require(resource, target.namespace, target.name)
        changed = copy.deepcopy(obj)
        changed["spec"]["replicas"] = scaling.replicas_in(resource, target.name, body)
        wanted = dig(body, "metadata", "resourceVersion")
        if wanted:
            changed["metadata"]["resourceVersion"] = wanted
        if not scaling.is_scalable(resource, obj):
            raise errors.ApiError(500, "InternalError", scaling.NOT_SCALABLE)
        updated = self._cluster.update(resource, changed, manager=manager, dry_run=dry_run, as_subresource="scale")
        return scaling.scale_of(resource, updated)

    def _evict(self, target: Target, body: Json) -> Json:
        pod = self._store.require(target.resource, target.namespace, target.name)
        budget = budgets.blocking(self._store, pod)
        if budget is not None:
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            details = {
                "causes": [errors.cause("", "DisruptionBudget", f"The disruption budget {budget} needs healthy pods")]
            }
            raise errors.ApiError(429, "TooManyRequests", message, details)
        options = dig(body, "deleteOptions", default={})
        self._cluster.delete(r.PODS, target.namespace, target.name, options)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def _bind(self, target: Target, body: Json) -> Json:
        pod = self._store.require(target.resource, target.namespace, target.name)
        if dig(pod, "spec", "nodeName"):
            raise errors.conflict(
                target.resource,
                target.name,
                f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"',
            )
        changed = copy.deepcopy(pod)
        changed["spec"]["nodeName"] = dig(body, "target", "name", default="")
        self._cluster.update(r.PODS, changed)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
