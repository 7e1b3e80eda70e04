"""The server for the contract: that of KUBECONFIG, or a double that is started for it."""

import base64
import functools
import json
import os
import ssl
import subprocess
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.patience import PATIENCE_S, until

Json = dict[str, Any]
MARK = "specdecode.example.com/conformance"
PLURALS = {"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses"}
CLUSTER_WIDE = ("PersistentVolume", "PriorityClass", "Namespace", "ClusterRole", "ClusterRoleBinding", "Node")


class Server:
    """A client of one API server. It marks every object that it creates, and `clean` removes them."""

    def __init__(self, url: str, context: ssl.SSLContext, token: str = "", *, is_double: bool) -> None:
        self.url, self._token, self.is_double = url.rstrip("/"), token, is_double
        self._pool = urllib3.PoolManager(ssl_context=context, retries=False, timeout=PATIENCE_S)
        self._marks = {MARK: uuid.uuid4().hex[:8]}
        self._made: list[str] = []

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """(status, answer). Header names are written with underscores: `Impersonate_User="…"`."""
        sent = {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        reply = self._pool.request(method, self.url + path, body=data, headers=sent)
        return reply.status, json.loads(reply.data)

    def namespace(self, **labels: str) -> str:
        name = made_up_name()
        self.make("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        self.wait(lambda: self.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")[0] == 200)
        return name

    def make(self, path: str, body: Json) -> Json:
        """Store an object outside of the namespaces. `clean` deletes it."""
        metadata = {**body["metadata"], "labels": {**self._marks, **body["metadata"].get("labels", {})}}
        self._made.append(f"{path}/{metadata['name']}")
        status, answer = self.request("POST", path, {**body, "metadata": metadata})
        assert status == 201, answer
        made: Json = answer
        return made

    def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Json:
        """The answer to a request that must not fail."""
        status, answer = self.request(method, path, body, **headers)
        assert status < 300, (method, path, answer)
        found: Json = answer
        return found

    @staticmethod
    def wait(found: Callable[[], Any]) -> Any:
        """Wait until `found` returns something, and return it."""
        return until(found, every_s=0.2)

    def clean(self) -> None:
        """Delete all created objects, the newest first, and wait until they are gone."""
        for path in reversed(self._made):
            self.request("DELETE", path)
        for path in self._made:
            self.wait(functools.partial(self._gone, path))

    def _gone(self, path: str) -> bool:
        return self.request("GET", path)[0] == 404

    def minor(self) -> str:
        """`35` of Kubernetes 1.35; a provider's `35+` is 35."""
        return str(self.request("GET", "/version")[1]["minor"]).rstrip("+")

    @functools.cache  # noqa: B019 - one server a session
    def lacks(self, api_version: str) -> bool:
        """Whether the server does not serve an API group in this version."""
        return self.request("GET", f"/apis/{api_version}")[0] == 404


def made_up_name() -> str:
    return f"conformance-{uuid.uuid4().hex[:10]}"


def path_of(body: Json, namespace: str) -> str:
    """The path under which objects of this kind are created."""
    kind, version = body["kind"], body["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = "" if kind in CLUSTER_WIDE else f"/namespaces/{namespace}"
    return f"{root}{where}/{PLURALS.get(kind, kind.lower() + 's')}"


def from_kubeconfig(path: str) -> Server:
    """The server of a kubeconfig's current context: tokens, client certificates and credential commands."""
    config = yaml.safe_load(Path(path).expanduser().read_text())

    def named(kind: str, name: str) -> Json:
        found: Json = next(entry[kind] for entry in config[f"{kind}s"] if entry["name"] == name)
        return found

    context = named("context", config["current-context"])
    cluster, user = named("cluster", context["cluster"]), named("user", context["user"])
    authority = _text(cluster, "certificate-authority")
    secure = ssl.create_default_context(cadata=authority) if authority else ssl.create_default_context()
    if certificate := _text(user, "client-certificate"):
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
            pair.write(certificate + _text(user, "client-key"))
            pair.flush()
            secure.load_cert_chain(pair.name)
    token = user.get("token") or (_token(user["exec"]) if "exec" in user else "")
    return Server(cluster["server"], secure, token, is_double=False)


def _text(part: Json, key: str) -> str:
    if data := part.get(f"{key}-data"):
        return base64.b64decode(data).decode()
    return Path(part[key]).read_text() if key in part else ""


def _token(command: Json) -> str:
    environment = {**os.environ, **{entry["name"]: entry["value"] for entry in command.get("env") or ()}}
    arguments = [command["command"], *(command.get("args") or ())]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return str(json.loads(done.stdout)["status"]["token"])
