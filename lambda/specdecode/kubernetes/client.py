"""A thin client of the Kubernetes API: the dozen calls that the pipeline makes, over urllib3 (ADR 197).

Requests that failed on the way, or got 429 or 5xx, are repeated with backoff and full jitter.
"""

import json
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import urllib3

from specdecode import names
from specdecode.kubernetes.resources import KubeObject, path


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


@dataclass(frozen=True)
class Response:
    status: int
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Transport = Callable[[str, str, Mapping[str, str], bytes | None], Response]
"""method, path with query, headers, body -> answer. Raises urllib3.exceptions.HTTPError if there is no answer."""


ATTEMPTS = 5
BACKOFF_S = 0.5
BACKOFF_MAX_S = 8.0
PAGE = 250
LOG_LINES, LOG_BYTES = 2000, 16 * 1024 * 1024


def retry_delay(attempt: int, retry_after: str | None, *, rand: Callable[[], float] = random.random) -> float:
    """Seconds to wait after attempt number `attempt` (0-based): full jitter, but never less than Retry-After."""
    jittered = rand() * min(BACKOFF_MAX_S, BACKOFF_S * 2.0**attempt)
    asked = float(retry_after) if retry_after and retry_after.isdigit() else 0.0
    return max(jittered, min(asked, BACKOFF_MAX_S))


class Kubernetes:
    """The API of one cluster. `token` is asked for a bearer token with False, and after a 401 for a new one with True.

    `sees`: the kinds outside namespaces that it has rights to. Others there are not asked for: nothing is found.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        token: Callable[[bool], str],
        sleep: Callable[[float], None] = time.sleep,
        sees: Collection[str] | None = None,
    ) -> None:
        self._sees = sees
        self._transport = transport
        self._token = token
        self._sleep = sleep

    def get(self, kind: str, name: str, *, namespace: str | None = None) -> KubeObject | None:
        if self._hidden(kind, namespace):
            return None
        try:
            return self._json("GET", path(kind, namespace=namespace, name=name))
        except NotFound:
            return None

    def events_about(self, kind: str, *, only: str = "") -> Sequence[KubeObject]:
        """Events (of type `only`) about objects of a kind in no namespace: in `default` (makeEvent of client-go)."""
        if self._sees is not None:
            return []
        fields = f"type={only},involvedObject.kind={kind}" if only else f"involvedObject.kind={kind}"
        return self.list("Event", namespace="default", fields=fields)

    def list(
        self, kind: str, *, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> list[KubeObject]:
        """All objects of `kind` (in `namespace`, or everywhere) that match a label and a field selector.

        The pages are of one moment. If the server forgets it on the way, the list is read again in one piece.
        """
        if self._hidden(kind, namespace):
            return []
        items: list[KubeObject] = []
        query = {"limit": str(PAGE), "labelSelector": selector, "fieldSelector": fields}
        while True:
            try:
                page = self._json("GET", path(kind, namespace=namespace), query={k: v for k, v in query.items() if v})
            except Expired:
                if "continue" not in query:
                    raise
                items, query = [], query | {"limit": "", "continue": ""}
                continue
            items += page.get("items") or []
            following = page.get("metadata", {}).get("continue")
            if not following:
                return items
            query["continue"] = following

    def apply(self, obj: KubeObject) -> KubeObject:
        """Server-side apply as our field manager. Creates the object if it does not exist."""
        meta = obj["metadata"]
        target = path(obj["kind"], namespace=meta.get("namespace"), name=meta["name"])
        query = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
        return self._json("PATCH", target, query=query, body=obj, content_type="application/apply-patch+yaml")

    def create(self, obj: KubeObject) -> bool:
        """Create an object. False if one of its name exists: that stays as it is."""
        target = path(obj["kind"], namespace=obj["metadata"].get("namespace"))
        try:
            self._json("POST", target, query={"fieldManager": names.FIELD_MANAGER}, body=obj)
        except Conflict as conflict:
            if conflict.reason != "AlreadyExists":
                raise
            return False
        return True

    def replace(self, obj: KubeObject) -> None:
        """Replace the object of this name, or create it. The old object is not read."""
        meta = obj["metadata"]
        target = path(obj["kind"], namespace=meta.get("namespace"), name=meta["name"])
        try:
            self._json("PUT", target, query={"fieldManager": names.FIELD_MANAGER}, body=obj)
        except NotFound:
            self.create(obj)

    def delete(self, kind: str, name: str, *, namespace: str | None = None, foreground: bool = False) -> bool:
        """Delete an object, and in the background what it owns; with `foreground` it stays until that is gone. False if
        it does not exist.
        """
        policy = "Foreground" if foreground else "Background"
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        try:
            self._json("DELETE", path(kind, namespace=namespace, name=name), body=body)
        except NotFound:
            return False
        return True

    def scale(self, kind: str, name: str, replicas: int) -> None:
        """Set the replicas of a cluster-scoped object by its scale subresource."""
        target = path(kind, namespace=None, name=name, sub="scale")
        body = {"spec": {"replicas": replicas}}
        self._json("PATCH", target, body=body, content_type="application/merge-patch+json")

    def logs(
        self,
        pod: str,
        *,
        namespace: str,
        container: str,
        previous: bool = False,
        beginning: int = 0,
    ) -> str:
        """The last LOG_LINES lines of a container, LOG_BYTES at most; with `previous` those before its last restart; or
        so many bytes of its `beginning`.

        It is tried once: a kubelet that does not answer costs the whole timeout. Raises NoLog if the kubelet has none
        (for a container that it lost, ContainerStatusUnknown, it answers 400).
        """
        end = {"tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
        query = {"container": container, **({"limitBytes": str(beginning)} if beginning else end)} | (
            {"previous": "true"} if previous else {}
        )
        target = f"{path('Pod', namespace=namespace, name=pod, sub='log')}?{urlencode(query)}"
        try:
            return self._request("GET", target, None, "", attempts=1).data.decode(errors="replace")
        except (InvalidManifest, ClusterUnavailable) as error:
            raise NoLog(str(error), status=error.status, reason=error.reason) from None

    def _hidden(self, kind: str, namespace: str | None) -> bool:
        return namespace is None and self._sees is not None and kind not in self._sees

    def _json(
        self,
        method: str,
        target: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> KubeObject:
        payload = None if body is None else json.dumps(body).encode()
        full = f"{target}?{urlencode(query)}" if query else target
        answer: KubeObject = json.loads(self._request(method, full, payload, content_type).data or b"{}")
        return answer

    def _request(
        self, method: str, target: str, body: bytes | None, content_type: str, *, attempts: int = ATTEMPTS
    ) -> Response:
        what = f"{method} {target.partition('?')[0]}"
        renew, failed = False, 0
        while True:
            headers = {"Accept": "application/json", "Authorization": f"Bearer {self._token(renew)}"}
            if body is not None:
                headers["Content-Type"] = content_type
            retry_after: str | None = None
            try:
                response = self._transport(method, target, headers, body)
            except urllib3.exceptions.HTTPError as error:
                failure: KubernetesError = ClusterUnavailable(
                    f"{what}: {type(error).__name__}: {error}", status=0, reason="NoAnswer"
                )
            else:
                if response.status < 400:
                    return response
                failure = from_response(what=what, status=response.status, body=_status_body(response.data))
                if response.status == 401 and not renew:
                    renew = True
                    continue
                retry_after = response.headers.get("Retry-After")
            failed += 1
            if failed >= attempts or not isinstance(failure, ClusterUnavailable):
                raise failure
            self._sleep(retry_delay(failed - 1, retry_after))


def _status_body(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except ValueError:
        return {"message": data[:200].decode(errors="replace")}
    return body if isinstance(body, dict) else {}
