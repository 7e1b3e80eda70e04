"""What the user can do about an arm that does not answer: error -> sentence."""

from __future__ import annotations

from specdecode import names
from specdecode.benchmark.endpoint import Endpoint
from specdecode.records import ErrorKind, RequestError


def hint(error: RequestError, *, arm: str, endpoint: Endpoint) -> str:
    """What to do about the error of an arm's first request. Empty if nothing is known beyond the error."""
    if error.kind is ErrorKind.HTTP:
        return _of_status(error.http_status or 0, error.message, arm, endpoint)
    return _of_connection(error.kind, error.message.lower(), endpoint)


def _of_status(status: int, message: str, arm: str, endpoint: Endpoint) -> str:
    if status in (401, 403):
        had = "refused the API key that it was given" if endpoint.api_key else "demands an API key, and none is set"
        return f"the server {had} (status {status}): set {names.api_key_variable(arm)} or {names.API_KEY_VARIABLE}"
    if status == 404 and "model" not in message.lower():
        return "nothing answers at this path: give the URL up to, and without, /v1/chat/completions"
    if status == 400 and "chat template" in message.lower():
        return "a base model has no chat template: use --endpoint completions"
    if 300 <= status < 400:
        return "it points elsewhere: give the URL that it points to"
    if status == 429:
        return "it limits requests, so that its limit would be measured: ask its owner to lift it"
    return ""


def _of_connection(kind: ErrorKind, message: str, endpoint: Endpoint) -> str:
    if "certificate" in message:
        return "its certificate is not trusted: SSL_CERT_FILE names a file with your own authority's certificate"
    if "wrong_version_number" in message or "record layer failure" in message:
        return "it does not speak TLS: try http://"
    plain = endpoint.address.tls is None
    if plain and (kind is ErrorKind.RESET or (kind is ErrorKind.PROTOCOL and "http/1" in message)):
        return "it may speak TLS: try https://"
    if "name or service not known" in message or "nodename nor servname" in message or "resolution" in message:
        return "no such host: check the name in the URL"
    if "refused" in message or "connect call failed" in message:  # the second is asyncio's text
        return "nothing listens there: check host and port, and that the server is up"
    if kind is ErrorKind.PROTOCOL and "not an event stream" in message:
        return "it does not stream its answers, which cannot be timed token by token: look for a proxy that buffers"
    return ""
