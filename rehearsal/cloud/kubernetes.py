"""A small client of the Kubernetes API double, for the changes that CloudFormation makes in a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

JSON = Mapping[str, Any]


class KubernetesError(ValueError):
    """The API refused; the message is the server's. CloudFormation shows it as the resource's failure."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Kubernetes:
    """Address and credentials of the double. The token is its administrator's."""

    url: str
    ca_file: Path
    token: str
    issuer: str = ""
    """OIDC issuer of the tokens that pods get."""

    @classmethod
    def from_environment(cls) -> Kubernetes:
        """Take SPECDECODE_KUBE_* out of the environment, so that no function's process inherits the token."""
        return cls(
            url=os.environ.pop("SPECDECODE_KUBE_URL"),
            ca_file=Path(os.environ.pop("SPECDECODE_KUBE_CA")),
            token=os.environ.pop("SPECDECODE_KUBE_TOKEN"),
            issuer=os.environ.pop("SPECDECODE_KUBE_ISSUER"),
        )

    def request(
        self, method: str, path: str, body: JSON | None = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - https URL of our own double
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": content_type},
        )
        context = ssl.create_default_context(cafile=str(self.ca_file))
        try:
            with urllib.request.urlopen(request, context=context, timeout=120) as response:  # noqa: S310
                return cast(dict[str, Any], json.loads(response.read() or b"{}"))
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):
                text = json.loads(text)["message"]
            raise KubernetesError(error.code, text) from None

    def path(self, obj: JSON) -> str:
        """URL path of an object, its plural looked up by discovery as kubectl does.

        Raises KubernetesError if the server does not have the kind (its CRD is not installed).
        """
        api_version, kind = obj["apiVersion"], obj["kind"]
        base = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            served = self.request("GET", base).get("resources", [])
        except KubernetesError as error:
            if error.status != 404:
                raise
            served = []
        resource = next((r for r in served if r["kind"] == kind and "/" not in r["name"]), None)
        if resource is None:
            raise KubernetesError(404, f'no matches for kind "{kind}" in version "{api_version}"')
        namespace = obj["metadata"].get("namespace", "default")
        scope = f"/namespaces/{urllib.parse.quote(namespace)}" if resource.get("namespaced") else ""
        return f"{base}{scope}/{resource['name']}/{urllib.parse.quote(obj['metadata']['name'])}"

    def apply(self, obj: JSON, *, manager: str) -> None:
        """Server-side apply. It takes over fields that others own."""
        query = urllib.parse.urlencode({"fieldManager": manager, "force": "true"})
        self.request("PATCH", f"{self.path(obj)}?{query}", obj, content_type="application/apply-patch+yaml")

    def delete(self, obj: JSON) -> None:
        """Delete and wait until it is gone (finalizers), as `kubectl delete --ignore-not-found` does.

        Raises KubernetesError if it still exists after two minutes.
        """
        deadline = time.monotonic() + 120
        try:
            path = self.path(obj)
            self.request("DELETE", path)
            while time.monotonic() < deadline:
                self.request("GET", path)
                time.sleep(0.2)
        except KubernetesError as error:
            if error.status == 404:
                return
            raise
        raise KubernetesError(408, f"{obj['kind']} {obj['metadata']['name']} is still being deleted")
