"""How a request goes to the API server: one function, so that tests put another in its place."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import urllib3


@dataclass(frozen=True)
class Response:
    """The part of an answer that the client reads."""

    status: int
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Transport = Callable[[str, str, Mapping[str, str], bytes | None], Response]
"""method, path with query, headers, body -> answer. Raises urllib3.exceptions.HTTPError if there is no answer."""


def https_transport(*, endpoint: str, ca_pem: str) -> Transport:
    """A transport that verifies the API server by the cluster's own CA and never retries by itself.

    It works with urllib3 1.26 and 2: Lambda's runtime has the one that its boto3 needs. 1.26 knows no `ca_cert_data`;
    both take an `ssl_context`.
    """
    pool = urllib3.PoolManager(
        ssl_context=ssl.create_default_context(cadata=ca_pem),
        retries=False,
        timeout=urllib3.Timeout(connect=5.0, read=20.0),
    )

    def send(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        answer = pool.request(method, endpoint.rstrip("/") + target, headers=dict(headers), body=body)
        return Response(status=answer.status, data=answer.data, headers=dict(answer.headers))

    return send
