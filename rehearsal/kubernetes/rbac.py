"""Who may do what: the cluster's RBAC objects, and EKS's access policies as the roles that they stand for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.identity import User
from rehearsal.kubernetes.objects import Json, dig

_READ = ["get", "list", "watch"]
_NAMESPACED_GROUPS = ["", "apps", "batch", "networking.k8s.io", "policy", "resource.k8s.io"]
_POLICY_ROLES = {
    "AmazonEKSClusterAdminPolicy": "cluster-admin",
    "AmazonEKSAdminPolicy": "admin",
    "AmazonEKSEditPolicy": "edit",
    "AmazonEKSViewPolicy": "view",
    "AmazonEKSAdminViewPolicy": "eks:admin-view",
}


@dataclass(frozen=True, kw_only=True)
class AccessRequest:
    """The access that a request needs: a verb on a resource (`group`, `resource` with its subresource), or on a plain
    path.
    """

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def bootstrap_objects() -> Iterator[tuple[r.Resource, Json]]:
    """The roles and bindings that every cluster starts with."""
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]
    write = [{"apiGroups": _NAMESPACED_GROUPS, "resources": ["*"], "verbs": ["*"]}]
    read = [{"apiGroups": _NAMESPACED_GROUPS, "resources": ["*"], "verbs": _READ}]
    access = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["*"]}
    urls = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version"]
    discovery = [{"nonResourceURLs": [*urls, "/version/"], "verbs": ["get"]}]
    review = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    basic = [{"apiGroups": ["authorization.k8s.io"], "resources": review, "verbs": ["create"]}]
    roles = {
        "cluster-admin": everything,
        "admin": [*write, access],
        "edit": write,
        "view": read,
        "eks:admin-view": [{"apiGroups": ["*"], "resources": ["*"], "verbs": _READ}],
        "system:discovery": discovery,
        "system:basic-user": basic,
    }
    for name, rules in roles.items():
        yield r.CLUSTER_ROLES, _object("ClusterRole", name, rules=rules)
    for name, group in (
        ("cluster-admin", "system:masters"),
        ("system:discovery", "system:authenticated"),
        ("system:basic-user", "system:authenticated"),
    ):
        subject = {"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}
        ref = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        yield r.CLUSTER_ROLE_BINDINGS, _object("ClusterRoleBinding", name, subjects=[subject], roleRef=ref)


def _object(kind: str, name: str, **body: object) -> Json:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **body}


def allowed(store: Store, user: User, request: AccessRequest) -> bool:
    """Whether any rule that applies to the user covers the request."""
    if "system:masters" in user.groups:
        return True
    return any(_covers(rule, request) for rule in rules_of(store, user, request.namespace))


def rules_of(store: Store, user: User, namespace: str) -> Iterator[Json]:
    """The rules that the user has in a namespace, or for cluster-wide requests with ""."""
    for binding in store.list(r.CLUSTER_ROLE_BINDINGS):
        if _binds(binding, user):
            yield from _role_rules(store, binding["roleRef"], "")
    for binding in store.list(r.ROLE_BINDINGS, namespace) if namespace else ():
        if _binds(binding, user):
            yield from _role_rules(store, binding["roleRef"], namespace)
    for policy in user.policies:
        role = _POLICY_ROLES.get(policy.name)
        if role and (not policy.namespaces or namespace in policy.namespaces):
            yield from _role_rules(store, {"kind": "ClusterRole", "name": role}, "")


def _binds(binding: Json, user: User) -> bool:
    for subject in binding.get("subjects") or ():
        if subject["kind"] == "User" and subject["name"] == user.name:
            return True
        if subject["kind"] == "Group" and subject["name"] in user.groups:
            return True
    return False


def _role_rules(store: Store, ref: Json, namespace: str) -> list[Json]:
    if ref["kind"] == "Role":
        role = store.get(r.ROLES, namespace, ref["name"])
    else:
        role = store.get(r.CLUSTER_ROLES, "", ref["name"])
    rules: list[Json] = dig(role, "rules", default=[])
    return rules


def _covers(rule: Json, request: AccessRequest) -> bool:
    if not _has(rule.get("verbs"), request.verb):
        return False
    if request.path:
        return any(
            url in ("*", request.path) or (url.endswith("*") and request.path.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs") or ()
        )
    if not _has(rule.get("apiGroups"), request.group):
        return False
    if not _resource_matches(rule.get("resources") or (), request.resource):
        return False
    names = rule.get("resourceNames")
    return not names or request.name in names


def _has(values: Sequence[str] | None, value: str) -> bool:
    return values is not None and ("*" in values or value in values)


def _resource_matches(patterns: Sequence[str], resource: str) -> bool:
    subresource = resource.partition("/")[2]
    return any(p in ("*", resource) or (subresource and p == f"*/{subresource}") for p in patterns)


def refusal(user: User, request: AccessRequest) -> str:
    """The reason, in the words of the real server."""
    if request.path:
        return f'User "{user.name}" cannot {request.verb} path "{request.path}"'
    scope = f' in the namespace "{request.namespace}"' if request.namespace else " at the cluster scope"
    return (
        f'User "{user.name}" cannot {request.verb} resource "{request.resource}" in API group "{request.group}"{scope}'
    )


def review(store: Store, user: User, kind: str, body: Json) -> Json:
    """An access review with its status. `kind` is the plural of the review's resource."""
    spec = body.get("spec") or {}
    if kind == "subjectaccessreviews":
        user = User(name=spec.get("user", ""), groups=tuple(spec.get("groups") or ()))
    asked = dig(spec, "resourceAttributes", default={})
    subresource = f"/{asked['subresource']}" if asked.get("subresource") else ""
    request = AccessRequest(
        verb=asked.get("verb") or dig(spec, "nonResourceAttributes", "verb", default=""),
        group=asked.get("group", ""),
        resource=asked.get("resource", "") + subresource,
        namespace=asked.get("namespace", ""),
        name=asked.get("name", ""),
        path=dig(spec, "nonResourceAttributes", "path", default=""),
    )
    may = allowed(store, user, request)
    status = {"allowed": True} if may else {"allowed": False, "reason": refusal(user, request)}
    return {**body, "status": status}
