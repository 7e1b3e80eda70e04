"""Discovery and OpenAPI, which kubectl reads before it does anything."""

from collections.abc import Iterable

from rehearsal.kubernetes.objects import Json
from rehearsal.kubernetes.resources import VERBS, Registry, Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OPENAPI_V2 = b"\x0a\x032.0\x12\x10\x0a\x0aKubernetes\x12\x021."
"""An OpenAPI v2 document (protobuf) without any schema: kubectl reads it before it applies a `List`. As it has no
schema, kubectl leaves the checking to the server.
"""
VERSION: Json = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.0-eks-rehearsal",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_SUBRESOURCE = {
    "scale": ("autoscaling", "v1", "Scale", ["get", "patch", "update"]),
    "status": (None, None, None, ["get", "patch", "update"]),
    "log": (None, None, None, ["get"]),
    "eviction": ("policy", "v1", "Eviction", ["create"]),
    "binding": (None, None, "Binding", ["create"]),
    "finalize": (None, None, None, ["update"]),
}


def core_versions() -> Json:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _groups(registry: Registry) -> dict[str, list[str]]:
    """Each group's versions, the stable ones first: `karpenter.sh` has v1 and, for NodeOverlay, v1alpha1."""
    found: dict[str, set[str]] = {}
    for res in registry:
        if res.group:
            found.setdefault(res.group, set()).add(res.version)
    return {group: sorted(versions, key=lambda version: (len(version), version)) for group, versions in found.items()}


def group_list(registry: Registry) -> Json:
    groups = [_group(group, versions) for group, versions in _groups(registry).items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(group: str, versions: list[str]) -> Json:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def group(registry: Registry, name: str) -> Json | None:
    versions = _groups(registry).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def resource_list(registry: Registry, group: str, version: str) -> Json | None:
    found = [res for res in registry if (res.group, res.version) == (group, version)]
    if not found:
        return None
    entries = [entry for res in found for entry in _entries(res)]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}


def _entries(res: Resource) -> Iterable[Json]:
    yield {
        "name": res.plural,
        "singularName": res.kind.lower(),
        "namespaced": res.namespaced,
        "kind": res.kind,
        "verbs": list(VERBS),
        "shortNames": list(res.short_names),
        "categories": list(res.categories),
    }
    for subresource in res.subresources:
        group, version, kind, verbs = _SUBRESOURCE[subresource]
        entry: Json = {"name": f"{res.plural}/{subresource}", "singularName": "", "namespaced": res.namespaced}
        entry |= {"kind": kind or res.kind, "verbs": verbs}
        yield entry | ({"group": group, "version": version} if group else {})


def aggregated(registry: Registry, *, core: bool) -> Json:
    """apidiscovery.k8s.io/v2: all groups and resources in one answer."""
    groups = {"": ["v1"]} if core else _groups(registry)
    listed = []
    for name, versions in groups.items():
        entries = [
            {
                "version": version,
                "resources": [_aggregated(res) for res in registry if (res.group, res.version) == (name, version)],
                "freshness": "Current",
            }
            for version in versions
        ]
        listed.append({"metadata": {"name": name} if name else {}, "versions": entries})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": listed}


def _aggregated(res: Resource) -> Json:
    subresources = []
    for subresource in res.subresources:
        group, version, kind, verbs = _SUBRESOURCE[subresource]
        kinds = {"group": group or res.group, "version": version or res.version, "kind": kind or res.kind}
        subresources.append({"subresource": subresource, "responseKind": kinds, "verbs": verbs})
    return {
        "resource": res.plural,
        "responseKind": {"group": res.group, "version": res.version, "kind": res.kind},
        "scope": "Namespaced" if res.namespaced else "Cluster",
        "singularResource": res.kind.lower(),
        "verbs": list(VERBS),
        "shortNames": list(res.short_names),
        "categories": list(res.categories),
        "subresources": subresources,
    }


def openapi_index(registry: Registry) -> Json:
    versions = {f"apis/{res.group}/{res.version}" if res.group else "api/v1" for res in registry}
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in sorted(versions)}}


def openapi(registry: Registry, path: str) -> Json | None:
    """OpenAPI v3 of one group version: the paths. They tell kubectl that the server validates fields."""
    found = [res for res in registry if (f"apis/{res.group}/{res.version}" if res.group else "api/v1") == path]
    if not found:
        return None
    paths: Json = {}
    for res in found:
        kind = {"group": res.group, "version": res.version, "kind": res.kind}
        middle = "/namespaces/{namespace}" if res.namespaced else ""
        parameters = [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")
        ]
        operation = {"x-kubernetes-group-version-kind": kind, "parameters": parameters, "responses": {}}
        paths[f"/{path}{middle}/{res.plural}"] = {"post": operation}
        paths[f"/{path}{middle}/{res.plural}/{{name}}"] = {"patch": operation, "put": operation}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}
