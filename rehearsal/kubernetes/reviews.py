"""Access reviews: whether a user may do something."""

from rehearsal.kubernetes import rbac
from rehearsal.kubernetes.identity import User
from rehearsal.kubernetes.objects import Json, dig
from rehearsal.kubernetes.store import Store


def answer(store: Store, user: User, kind: str, body: Json) -> Json:
    """The review with its status. `kind` is the plural of the review's resource."""
    spec = body.get("spec") or {}
    if kind == "subjectaccessreviews":
        user = User(name=spec.get("user", ""), groups=tuple(spec.get("groups") or ()))
    asked = dig(spec, "resourceAttributes", default={})
    subresource = f"/{asked['subresource']}" if asked.get("subresource") else ""
    request = rbac.AccessRequest(
        verb=asked.get("verb") or dig(spec, "nonResourceAttributes", "verb", default=""),
        group=asked.get("group", ""),
        resource=asked.get("resource", "") + subresource,
        namespace=asked.get("namespace", ""),
        name=asked.get("name", ""),
        path=dig(spec, "nonResourceAttributes", "path", default=""),
    )
    allowed = rbac.allowed(store, user, request)
    status = {"allowed": allowed} if allowed else {"allowed": False, "reason": rbac.refusal(user, request)}
    return {**body, "status": status}
