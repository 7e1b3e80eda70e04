"""From an API path to its target: resource, namespace, name, subresource, verb."""

from dataclasses import dataclass

from rehearsal.kubernetes import errors, rbac
from rehearsal.kubernetes.resources import Registry, Resource

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_BODILESS_REVIEWS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
}


@dataclass(frozen=True, kw_only=True)
class Target:
    """A request on a resource."""

    resource: Resource
    namespace: str
    name: str
    subresource: str
    verb: str

    def access(self) -> rbac.AccessRequest:
        resource = self.resource.plural + (f"/{self.subresource}" if self.subresource else "")
        return rbac.AccessRequest(
            verb=self.verb,
            group=self.resource.group,
            resource=resource,
            namespace=self.name if self.resource.plural == "namespaces" else self.namespace,
            name=self.name,
        )


def review_of(path: str) -> str | None:
    """The kind of access review that a path creates, or None."""
    parts = path.strip("/").split("/")
    if len(parts) == 4 and parts[0] == "apis" and (parts[1], parts[3]) in _BODILESS_REVIEWS:
        return parts[3]
    return None


def parse(registry: Registry, method: str, path: str, *, watch: bool) -> Target | None:
    """The target of a path below /api/v1 or /apis/<group>/<version>; None for other paths.

    Raises 404 if the resource is not served, 405 if it does not have the method.
    """
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise errors.no_such_path()
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in resource.subresources:
        raise errors.no_such_path()
    if resource.namespaced and name and not namespace:
        raise errors.no_such_path()
    return Target(
        resource=resource,
        namespace=namespace,
        name=name,
        subresource=subresource,
        verb=_verb(method, bool(name), watch, subresource),
    )


def _verb(method: str, named: bool, watch: bool, subresource: str) -> str:
    if method in ("GET", "HEAD"):
        if watch:
            return "watch"
        return "get" if named else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    verb = _VERBS.get(method)
    if verb is None or (verb == "create") == (named and subresource not in ("eviction", "binding")):
        raise errors.method_not_allowed()
    return verb
