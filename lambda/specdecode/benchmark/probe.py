"""Probes an arm before any load: does it answer, does it serve the model, and what does it understand?"""

import re
from dataclasses import dataclass

from specdecode import names
from specdecode.benchmark.client import BodyDialect, Client, PlannedRequest, request_body
from specdecode.benchmark.counters import (
    Counted,
    Unusable,
    metrics_of,
    parse_counters,
    parse_prefix_caching,
    parse_started,
)
from specdecode.benchmark.endpoint import Endpoint, fetch
from specdecode.benchmark.prompts import Prompt
from specdecode.escape import clip, plain
from specdecode.experiment.workload import Workload
from specdecode.records import ErrorKind, RequestError, RequestRecord, ServerFacts
from specdecode.untrusted import parse_json

PROBE_TOKENS = 8
MAX_MODEL_NAME = 200
SHOWN = 20
"""Most models of a server that a message names."""
_DIALECTS = (
    BodyDialect(),
    BodyDialect(running_usage=False),
    BodyDialect(running_usage=False, exact_length=False),
    BodyDialect(running_usage=False, exact_length=False, usage=False),
)
"""From the fullest to the plainest. The first that the server accepts is used for the whole run."""
_NOT_UNDERSTOOD = (400, 415, 422, 501)
"""Status of a server that read the request and refused its form."""


class ArmNotReady(Exception):
    """An arm cannot be measured; the message names it and says why."""


@dataclass(frozen=True, kw_only=True)
class ArmFacts:
    """Result of a probe."""

    server: ServerFacts
    dialect: BodyDialect
    metrics: str
    """What `/metrics` is, in words, if it tells nothing of speculation."""
    uncounted: str = ""
    """Why its token counts cannot be used, if so."""
    unusable: str = ""
    """Why its counters of speculation cannot be used, if it has some."""
    first_s: float = 0.0
    """Seconds to the first token of the probe."""
    token_s: float = 0.0
    """Seconds for each of its further tokens."""

    @property
    def told(self) -> str:
        """What the user should know about the arm before it is loaded."""
        lacks = []
        if self.uncounted:
            lacks.append(f"{self.uncounted}: only times can be told, no tokens per second or step")
        if not self.server.counters:
            lacks.append(f"its speculation counters cannot be used: {self.unusable}" if self.unusable else self.metrics)
        known = f" ({'; '.join(lacks)})" if lacks else ""
        return f"answers at {self.server.url} as {self.server.model}{known}"


async def probe(client: Client, *, model: str | None, prompt: Prompt, workload: Workload) -> ArmFacts:
    """One short request in the fullest dialect that the server takes. Raises ArmNotReady."""
    name = await _model(client, model)
    for dialect in _DIALECTS:
        record = await _ask(client, name, prompt, workload, dialect)
        if not (record.error and record.error.kind is ErrorKind.HTTP and record.error.http_status in _NOT_UNDERSTOOD):
            break
    if record.error is not None:
        raise _not_ready(client, record.error)
    first_s = record.chunks[0].at_s if record.chunks else record.end_s
    metrics = await metrics_of(client.endpoint)
    text = metrics if isinstance(metrics, str) else ""
    counters = parse_counters(text)
    return ArmFacts(
        server=ServerFacts(
            url=client.endpoint.url,
            model=name,
            running_usage=all(chunk.tokens is not None for chunk in record.chunks),
            usage=record.completion_tokens is not None,
            ignore_eos=dialect.exact_length,
            counters=isinstance(counters, tuple),
            drafted=_drafted(text, counters),
            prefix_caching=parse_prefix_caching(text),
            started_at=parse_started(text),
        ),
        dialect=dialect,
        metrics=_without_counters(metrics),
        uncounted=record.usage_problem or "",
        unusable=counters.why if isinstance(counters, Unusable) else "",
        first_s=first_s,
        token_s=max(0.0, record.end_s - first_s) / max(1, (record.completion_tokens or PROBE_TOKENS) - 1),
    )


def _drafted(text: str, counters: Counted) -> int | None:
    """The k of the server: vLLM has counters of all positions from the start (v1/spec_decode/metrics.py)."""
    if isinstance(counters, tuple):
        return len(counters[3:]) or None
    return 0 if text and counters is None else None


def _without_counters(metrics: str | Unusable | None) -> str:
    if isinstance(metrics, Unusable):
        return f"/metrics cannot be read: {metrics.why}"
    return "no /metrics" if metrics is None else "no speculation counters"


async def _model(client: Client, wanted: str | None) -> str:
    """Name of the served model. Without `wanted`, the only model of the server."""
    where = f"arm {client.variant} ({client.endpoint.url})"
    try:
        reply = await fetch(client.endpoint, "/v1/models")
    except OSError as error:
        kind = ErrorKind.TIMEOUT if isinstance(error, TimeoutError) else ErrorKind.CONNECT
        message = str(error) or type(error).__name__
        if "closed without an answer" in message:
            kind = ErrorKind.RESET
        raise _not_ready(client, RequestError(kind=kind, message=message)) from None
    if reply.status in (401, 403):
        raise ArmNotReady(f"{where}: {_of_status(reply.status, '', client.variant, client.endpoint)}")
    try:
        listed = [entry["id"] for entry in parse_json(reply.body)["data"]]
        served = [clip(plain(name), MAX_MODEL_NAME) for name in listed if isinstance(name, str) and name.strip()]
    except (ValueError, LookupError, TypeError):
        served = []
    if wanted is None:
        if len(served) != 1:
            lists = ", ".join(served[:SHOWN]) or f"none at /v1/models (status {reply.status})"
            raise ArmNotReady(f"{where}: name the model with --model: the server lists {lists}")
        return served[0]
    if served and wanted not in served:
        raise ArmNotReady(f"{where}: the server does not serve {wanted!r}, but {', '.join(served[:SHOWN])}")
    return wanted


def _not_ready(client: Client, error: RequestError) -> ArmNotReady:
    if error.kind is ErrorKind.HTTP:
        todo = _of_status(error.http_status or 0, error.message, client.variant, client.endpoint)
    else:
        todo = _of_connection(error.kind, error.message.lower(), client.endpoint)
    told = f"arm {client.variant} ({client.endpoint.url}): {error.kind}: {error.message}"
    return ArmNotReady(f"{told}. {todo[:1].upper()}{todo[1:]}." if todo else told)


async def _ask(client: Client, model: str, prompt: Prompt, workload: Workload, dialect: BodyDialect) -> RequestRecord:
    tokens = min(PROBE_TOKENS, workload.output_tokens)
    plan = PlannedRequest(
        case="probe",
        level="",
        index=0,
        warmup=True,
        body=request_body(
            model=model, prompt=prompt, index=0, workload=workload, dialect=dialect, output_tokens=tokens
        ),
        prompt=prompt,
        timeout_s=workload.timeout_s,
    )
    records: list[RequestRecord] = []
    await client.request(plan, lambda make: records.append(make()))
    return records[0]


def _of_status(status: int, message: str, arm: str, endpoint: Endpoint) -> str:
    """What to do about an HTTP error. Empty if nothing is known beyond the error."""
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


_HINTS = {
    "certificate": "its certificate is not trusted: SSL_CERT_FILE names a file with your own authority's certificate",
    "wrong_version_number|record layer failure": "it does not speak TLS: try http://",
    "name or service not known|nodename nor servname|resolution": "no such host: check the name in the URL",
    # the second is asyncio's text
    "refused|connect call failed": "nothing listens there: check host and port, and that the server is up",
    "not an event stream": (
        "it does not stream its answers, which cannot be timed token by token: look for a proxy that buffers"
    ),
}
"""Pattern in the message of a connection's error -> what to do."""


def _of_connection(kind: ErrorKind, message: str, endpoint: Endpoint) -> str:
    may_be_tls = kind is ErrorKind.RESET or (kind is ErrorKind.PROTOCOL and "http/1" in message)
    if endpoint.address.tls is None and may_be_tls:
        return "it may speak TLS: try https://"
    return next((todo for pattern, todo in _HINTS.items() if re.search(pattern, message)), "")
