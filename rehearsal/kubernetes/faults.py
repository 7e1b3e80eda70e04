"""The faults that a rehearsal can inject into the cluster."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

from aiohttp import web

from rehearsal.kubernetes import errors
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, namespace_of
from rehearsal.kubernetes.resources import PODS, Resource

_API_FAULTS = {
    429: ("TooManyRequests", "Too many requests, please try again later."),
    500: ("InternalError", "Internal error occurred: injected by the rehearsal"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    409: ("Conflict", "Operation cannot be fulfilled: the object has been modified; please apply your changes again"),
}
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


class CutOff(Exception):
    """The request's connection was cut, so there is no answer."""


@dataclass
class ApiFault:
    """The next `count` requests (writes only, for a 409) are answered with `code`, or cut off with code 0.

    `message` replaces the usual message of that code. With `method`, only requests of that method count.
    """

    code: int
    count: int
    path: str = ""
    message: str = ""
    method: str = ""


@dataclass
class Faults:
    """The faults that are on. `node_delay` None leaves the configured delay.

    Some faults are parts of names: EC2NodeClasses (`ami_missing`) and NodePools (`pool_invalid`) that are never Ready,
    volumes that cannot be mounted (`mount_denied`) or whose mount dies under a container (`mount_dies`). `hub` is the
    address of a Hugging Face hub for the pods; without it there is none. `engine` says in what the engine's image
    differs from its file (rehearsal.engine.cli.IMAGE). Nodes publish all devices but `devices_missing`.
    """

    no_capacity: bool = False
    node_delay: float | None = None
    node_never_ready: bool = False
    no_published_price: bool = False
    ami_missing: str = ""
    pool_invalid: str = ""
    image_pull_error: str = ""
    mount_denied: str = ""
    mount_dies: str = ""
    hub: str = ""
    webhook: str = ""
    engine: str = ""
    devices_missing: int = 0
    api: list[ApiFault] = field(default_factory=list)
    changed: Callable[[], None] = lambda: None

    def set(self, body: Json) -> Json:
        """Turn faults on and off by name. Returns all faults. Raises 400 for an unknown name."""
        switches = [f.name for f in fields(self) if f.name not in ("api", "changed")]
        unknown = sorted(set(body) - {*switches, "api", "reset"})
        if unknown:
            raise errors.bad_request(f"unknown faults: {', '.join(unknown)}; known: {', '.join(switches)}, api, reset")
        if body.get("reset"):
            fresh = Faults()
            for name in switches:
                setattr(self, name, getattr(fresh, name))
            self.api.clear()
        for name in switches:
            if name in body:
                setattr(self, name, body[name])
        for entry in body.get("api") or ():
            if entry["code"] not in (0, *_API_FAULTS):
                raise errors.bad_request(
                    f"api fault code {entry['code']}: known are 0 (connection reset), {sorted(_API_FAULTS)}"
                )
            self.api.append(ApiFault(**{"count": 1, **entry}))
        self.changed()
        return {**{name: getattr(self, name) for name in switches}, "api": [vars(fault) for fault in self.api]}

    def admit(self, store: Store, resource: Resource, obj: Json) -> None:
        """Admission by the webhook, in the words of a real API server (1.35.6) for a denial without a code."""
        if resource is not PODS or not self.webhook or namespace_of(obj) != "specdecode":
            return
        if self.webhook == "denying":
            told = 'admission webhook "policy.rehearsal" denied the request: no pods of strangers'
            raise errors.ApiError(400, "", told)
        told = 'failed calling webhook "policy.rehearsal": failed to call webhook: Post "https://policy.rehearsal:443/"'
        raise errors.ApiError(500, "InternalError", f"Internal error occurred: {told}: connect: connection refused")

    def api_request(self, request: web.Request) -> None:
        """Refuse or cut off `request` if an API fault is due."""
        for fault in self.api:
            if fault.path not in request.path or fault.method not in ("", request.method):
                continue
            if fault.code == 409 and request.method not in _WRITES:
                continue
            fault.count -= 1
            if fault.count <= 0:
                self.api.remove(fault)
            if fault.code == 0:
                if request.transport is not None:
                    request.transport.abort()
                raise CutOff
            reason, message = _API_FAULTS[fault.code]
            raise errors.ApiError(
                fault.code, reason, fault.message or message, headers={"Retry-After": "1"} if fault.code == 429 else {}
            )
