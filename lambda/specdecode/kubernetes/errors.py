"""Errors of the Kubernetes API, by what the caller can do."""

from typing import Any


class KubernetesError(Exception):
    """The API server answered with the HTTP `status`, and the machine-readable `reason` of a Status object, if any."""

    def __init__(self, message: str, *, status: int, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class NotFound(KubernetesError):
    """404: the object, or the kind, does not exist."""


class Conflict(KubernetesError):
    """409: the object changed under us, exists already, or another manager owns the field."""


class Forbidden(KubernetesError):
    """401 or 403: the token was refused, or the pipeline's Role lacks the verb."""


class QuotaExceeded(Forbidden):
    """403: the namespace's quota admits no further object. Trying again cannot help while it is full."""


class InvalidManifest(KubernetesError):
    """400 or 422, or 500 to an apply that does not fit the schema: the object is refused. Trying again cannot help."""


class NoLog(KubernetesError):
    """The log of a container cannot be read: the kubelet has none, or does not answer."""


class Expired(KubernetesError):
    """410: the API server has forgotten a list that was read page by page. Read it again from the start."""


class ClusterUnavailable(KubernetesError):
    """No answer, 429 or 5xx, after all retries."""


_NOT_OF_THE_SCHEMA = ("failed to create typed patch object", "failed to convert new object")
"""Of unknown fields, wrong types and duplicate keys of lists, and of quantities and times that are none: a server-side
apply answers them with 500 (a real API server 1.35, ADR 124)."""

_BY_STATUS: dict[int, type[KubernetesError]] = {
    400: InvalidManifest,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: InvalidManifest,
}


def from_response(*, what: str, status: int, body: dict[str, Any]) -> KubernetesError:
    """The typed error for an answer. `what` is the request (`GET …/pods/x`), `body` the Status object or {}."""
    kind = _BY_STATUS.get(status, ClusterUnavailable if status == 429 or status >= 500 else KubernetesError)
    message = body.get("message") or "no message"
    if status == 500 and message.startswith(_NOT_OF_THE_SCHEMA):
        kind = InvalidManifest
    if kind is Forbidden and "exceeded quota: " in message:
        kind = QuotaExceeded
    return kind(f"{what}: {status} {message}", status=status, reason=body.get("reason", ""))
