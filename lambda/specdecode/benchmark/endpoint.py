"""One OpenAI-compatible server: its address and its key."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from specdecode import __version__
from specdecode.benchmark.transport import Address

_TELLING = 8
"""Least number of leading characters of a key that are hidden: fewer reveal nothing."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An arm's server. `url` is with or without `/v1` and the API's path, as people copy it."""

    url: str
    address: Address
    root: str
    """Path before `/v1`."""
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, *, api_key: str | None = None) -> Endpoint:
        """Raises ValueError for what is no http(s) URL, and for a key that no header can hold."""
        address = Address.of(url)
        root = re.sub(r"(/v1)?(/(chat/)?completions|/models)?$", "", urlsplit(url).path.rstrip("/"))
        if api_key and not re.fullmatch(r"[!-~]+", api_key):
            raise ValueError(f"the API key for {url} holds a space, a line break or a letter beyond ASCII: correct it")
        return cls(url=url, address=address, root=root, api_key=api_key)

    def without_key(self, text: str) -> str:
        """`text` of the server, safe to store and show: some servers repeat the refused key, whole or cut."""
        for length in range(len(self.api_key or ""), _TELLING - 1, -1):
            text = text.replace(str(self.api_key)[:length], "…")
        return text

    def completions_path(self, body: dict[str, Any]) -> str:
        """Path of the endpoint that takes `body`."""
        return "/v1/chat/completions" if "messages" in body else "/v1/completions"

    def request_bytes(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        """A whole HTTP/1.1 request on a connection of its own."""
        content = b"" if body is None else json.dumps(body).encode()
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        head = [
            f"{method} {self.root}{path} HTTP/1.1",
            f"Host: {host}:{self.address.port}",
            f"User-Agent: specdecode/{__version__}",
            "Accept: text/event-stream, application/json;q=0.9, */*;q=0.1",
            "Connection: close",
        ]
        if self.api_key:
            head.append(f"Authorization: Bearer {self.api_key}")
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + content
