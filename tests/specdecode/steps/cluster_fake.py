"""A Kubernetes API in memory for the steps' tests: validates what is written, and can be told to fail."""

import copy
import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import urllib3
from specdecode.kubernetes.client import Kubernetes, Response
from specdecode.kubernetes.pods import container_statuses
from specdecode.kubernetes.resources import RESOURCES, KubeObject

from rehearsal.kubernetes.queries import field_selector
from tests import kubernetes_schema

Fault = Callable[[str, str], Response | Exception | None]
"""method, path -> what goes wrong instead of an answer, or None."""


def status(code: int, message: str = "injected", **headers: str) -> Response:
    return Response(code, json.dumps({"kind": "Status", "message": message, "reason": "Injected"}).encode(), headers)


def refused() -> Exception:
    return urllib3.exceptions.NewConnectionError(None, "Connection refused")


class FakeCluster:
    """Objects by (kind, namespace, name). `react` is called after every write and before every read."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.objects: dict[tuple[str, str, str], KubeObject] = {}
        self.logs: dict[str, str] = {}
        self.requests: list[tuple[str, str]] = []
        self.fault: Fault = lambda method, path: None
        self.react: Callable[[], None] = lambda: None
        self.now = now
        self._writes: Counter[tuple[str, str, str]] = Counter()

    def client(self) -> Kubernetes:
        return Kubernetes(self.send, token=lambda renew: "token", sleep=lambda s: None)

    def all(self, kind: str) -> list[KubeObject]:
        return [obj for (k, _, _), obj in self.objects.items() if k == kind]

    def put(self, obj: Mapping[str, Any]) -> KubeObject:
        """Store an object as a controller would, without validation."""
        made = copy.deepcopy(dict(obj))
        meta = made["metadata"]
        key = made["kind"], meta.get("namespace", ""), meta["name"]
        kept = self.objects[key]["metadata"] if key in self.objects else {}
        self._writes[key] += 1
        uid = uuid.uuid5(uuid.NAMESPACE_URL, f"{key} {self._writes[key]}")
        set_by_server = {"uid": str(uid), "creationTimestamp": self.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
        set_by_server |= {k: v for k, v in kept.items() if k in {*set_by_server, "deletionTimestamp"}}
        meta.update({key: meta.get(key, value) for key, value in set_by_server.items()})
        self.objects[key] = made
        return made

    def remove(self, kind: str, name: str) -> None:
        self.objects = {key: obj for key, obj in self.objects.items() if (key[0], key[2]) != (kind, name)}

    def collect_garbage(self) -> None:
        """What an owner's end takes with it; an owner that ends in the foreground ends after what blocks it."""
        while True:
            living = {o["metadata"]["uid"] for o in self.objects.values() if "deletionTimestamp" not in o["metadata"]}
            doomed = {key for key, obj in self.objects.items() if (of := _owners(obj)) and not of & living}
            owned = {uid for obj in self.objects.values() for uid in _owners(obj)}
            ended = {k for k, o in self.objects.items() if o["metadata"].get("deletionTimestamp")}
            doomed |= {key for key in ended if self.objects[key]["metadata"]["uid"] not in owned}
            if not doomed:
                return
            self.objects = {key: obj for key, obj in self.objects.items() if key not in doomed}

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        path, _, query = target.partition("?")
        self.requests.append((method, path))
        wrong = self.fault(method, path)
        if isinstance(wrong, Exception):
            raise wrong
        if wrong is not None:
            return wrong
        assert headers["Authorization"] == "Bearer token"
        kind, namespace, name, sub = self._route(path)
        options = {key: values[0] for key, values in parse_qs(query).items()}
        if method == "GET":
            self.react()
        answer = self._answer(method, kind, namespace, name, sub, options, headers, json.loads(body or b"null"))
        if method != "GET":
            self.react()
        return answer

    def _answer(
        self,
        method: str,
        kind: str,
        namespace: str,
        name: str,
        sub: str,
        options: dict[str, str],
        headers: Mapping[str, str],
        body: Any,
    ) -> Response:
        key = (kind, namespace, name)
        if kind == "Secret":
            assert method in ("POST", "PUT"), "the pipeline may create and replace Secrets and nothing else"
            if method == "PUT" and key not in self.objects:
                return status(404, f"{kind} {name} not found")
            return self._create(body, namespace, replace=method == "PUT")
        if method == "GET" and sub == "log":
            pod = self.objects[key]
            if options.get("previous") and not any(each.get("restartCount") for each in container_statuses(pod)):
                return status(400, f'previous terminated container "{options["container"]}" in pod "{name}" not found')
            return Response(200, self.logs.get(name, "").encode())
        if method == "GET" and not name:
            found = self._select(kind, namespace, options.get("labelSelector", ""))
            chosen = field_selector(f"{kind.lower()}s", options.get("fieldSelector", ""))
            return _ok({"items": [obj for obj in found if chosen(obj)], "metadata": {}})
        if method == "PATCH" and not sub:
            assert headers["Content-Type"] == "application/apply-patch+yaml"
            assert options == {"fieldManager": "specdecode", "force": "true"}
            _validate(json.dumps(body))
            assert key == (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"])
            assert name.endswith("-run") or _owners(body) & {o["metadata"]["uid"] for o in self.all("ConfigMap")}
            return _ok(self.put(body))
        if key not in self.objects:
            return status(404, f"{kind} {name} not found")
        if method == "GET":
            return _ok(self.objects[key])
        if method == "PATCH" and sub == "scale":
            assert headers["Content-Type"] == "application/merge-patch+json"
            self.objects[key]["spec"]["replicas"] = body["spec"]["replicas"]
            return _ok({})
        if method == "DELETE":
            if body["propagationPolicy"] == "Foreground":
                self.objects[key]["metadata"]["deletionTimestamp"] = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            else:
                del self.objects[key]
            return _ok({})
        raise AssertionError(f"unexpected {method} {kind} {sub}")

    def _create(self, body: KubeObject, namespace: str, *, replace: bool = False) -> Response:
        _validate(json.dumps({**body, "data": {}}))
        assert _owners(body) & {o["metadata"]["uid"] for o in self.all("ConfigMap")}
        key = body["kind"], namespace, body["metadata"]["name"]
        if key in self.objects and not replace:
            return Response(409, json.dumps({"reason": "AlreadyExists", "message": "already exists"}).encode())
        return _ok(self.put(body))

    def _route(self, path: str) -> tuple[str, str, str, str]:
        for kind, resource in RESOURCES.items():
            if not path.startswith(resource.root + "/"):
                continue
            parts = path[len(resource.root) + 1 :].split("/")
            namespace = ""
            if parts[0] == "namespaces" and len(parts) > 2:
                namespace, parts = parts[1], parts[2:]
            if parts[0] == resource.plural:
                name, sub = (*parts[1:], "", "")[:2]
                return kind, namespace, name, sub
        raise AssertionError(f"no such path: {path}")

    def _select(self, kind: str, namespace: str, selector: str) -> list[KubeObject]:
        wanted = [part.partition("=") for part in selector.split(",") if part]
        return [
            obj
            for (k, ns, _), obj in self.objects.items()
            if k == kind
            and (not namespace or ns == namespace)
            and all(
                label in (labels := obj["metadata"].get("labels", {})) and (not equals or labels[label] == value)
                for label, equals, value in wanted
            )
        ]


def _owners(obj: Mapping[str, Any]) -> set[str]:
    """Uids of the owners; pods and claims name theirs without."""
    return {owner["uid"] for owner in obj["metadata"].get("ownerReferences") or () if "uid" in owner}


@cache
def _validate(document: str) -> None:
    kubernetes_schema.validate(json.loads(document))


def _ok(body: Any) -> Response:
    return Response(200, json.dumps(body).encode())
