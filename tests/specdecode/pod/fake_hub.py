"""The Hugging Face hub as far as staging asks it, over HTTP, for the hub's own library: listing, files, redirects."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.local_http import Handler, served

COMMIT = "c0ffee" * 6 + "abcd"


class FakeHub:
    """One model, `acme/m`, and one data set, `acme/tickets`.

    Weights are large files: the hub redirects to a signed address of another host.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.lie = files, False
        self.data: dict[str, bytes] = {}
        """Files of the data set."""
        self.claimed_size: int | None = None
        """What the hub says that they are long."""
        self.failing: tuple[int | None, str] | None = None
        """Status and `X-Error-Code` of every answer from now on; no status: connections are closed unanswered."""
        self.signed_refused = False
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()
        self.tokens_elsewhere: set[str | None] = set()
        """Of requests to the signed addresses."""

    def __enter__(self) -> Self:
        self._running, handler = ExitStack(), _handler(self)
        self.url, self.signed = (
            self._running.enter_context(served(handler, host)) for host in ("127.0.0.1", "127.0.0.2")
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def listing(self) -> dict[str, Any]:
        def sibling(name: str, data: bytes) -> dict[str, Any]:
            sha256 = "0" * 64 if self.lie else hashlib.sha256(data).hexdigest()
            lfs = {"lfs": {"sha256": sha256, "size": len(data), "pointerSize": 130}} if _is_large(name) else {}
            return {"rfilename": name, "size": len(data), "blobId": hashlib.sha1(data).hexdigest(), **lfs}

        return {"id": "acme/m", "sha": COMMIT, "siblings": [sibling(*item) for item in self.files.items()]}


def _is_large(name: str) -> bool:
    return name.endswith((".safetensors", ".bin", ".pt"))


def _handler(hub: FakeHub) -> type[Handler]:
    class Answering(Handler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            token = self.headers.get("Authorization")
            if path.startswith("/signed/"):
                hub.tokens_elsewhere.add(token)
                if hub.signed_refused:
                    return self.reply(403)
                return self.reply(body=hub.files[path.removeprefix("/signed/")])
            if path == "/api/agent-harnesses":  # huggingface_hub asks it once a process, for whatever is asked first
                return self.reply(404)
            hub.asked.append(path)
            hub.tokens.add(token)
            if hub.failing:
                status, code = hub.failing
                if status is None:
                    return self.connection.close()
                return self.reply(status, **({"X-Error-Code": code} if code else {}))
            if path.startswith("/api/models/acme/m/revision/"):
                return self.reply(body=json.dumps(hub.listing()).encode(), **{"Content-Type": "application/json"})
            if path.startswith(f"/datasets/acme/tickets/resolve/{COMMIT}/"):
                data = hub.data[path.partition(f"{COMMIT}/")[2]]
                about = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
                return self.reply(body=data, **about)
            name = path.removeprefix(f"/acme/m/resolve/{COMMIT}/")
            data = hub.files[name]
            about = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
            if _is_large(name):
                about = {"X-Linked-Size": str(len(data)), "X-Linked-ETag": about["ETag"], **about}
                about["Location"] = f"{hub.signed}/signed/{name}?X-Amz-Signature=abcdef"
                return self.reply(302, **about)
            return self.reply(body=data, **about)

        def do_POST(self) -> None:
            asked = parse_qs(self.body().decode())
            hub.asked.append(self.path)
            hub.tokens.add(self.headers.get("Authorization"))
            if hub.failing or self.path != f"/api/datasets/acme/tickets/paths-info/{COMMIT}":
                status, code = hub.failing or (404, "RevisionNotFound")
                return self.reply(status or 500, **({"X-Error-Code": code} if code else {}))
            known = [
                {"type": "file", "path": name, "size": hub.claimed_size or len(hub.data[name]), "oid": "0" * 40}
                for name in asked["paths"]
                if name in hub.data
            ]
            self.reply(body=json.dumps(known).encode(), **{"Content-Type": "application/json"})

    return Answering
