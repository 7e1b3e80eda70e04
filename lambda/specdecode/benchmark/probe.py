"""Before any load: does the arm answer, does it serve the model, and what does it understand?"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from specdecode import names
from specdecode.benchmark.client import Client, PlannedRequest
from specdecode.benchmark.fetch import fetch
from specdecode.benchmark.prompts import Prompt
from specdecode.benchmark.records import ErrorKind, RequestRecord
from specdecode.benchmark.request_body import Dialect, request_body
from specdecode.experiment.model import Workload

PROBE_TOKENS = 8
_DIALECTS = (
    Dialect(),
    Dialect(running_usage=False),
    Dialect(running_usage=False, exact_length=False),
    Dialect(running_usage=False, exact_length=False, usage=False),
)
"""From the fullest to the plainest; the first that the server takes is used for the whole run."""


class ArmNotReady(Exception):
    """An arm cannot be measured; the message names it and says why."""


@dataclass(frozen=True, kw_only=True)
class ArmFacts:
    """What the probe found."""

    model: str
    dialect: Dialect
    chunk_tokens: bool
    """Whether the server really counts tokens with every chunk."""
    usage: bool
    metrics: bool
    """Whether `/metrics` answers."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "running_usage": self.chunk_tokens,
            "usage": self.usage,
            "ignore_eos": self.dialect.exact_length,
            "metrics": self.metrics,
        }


async def probe(client: Client, *, model: str | None, prompt: Prompt, workload: Workload) -> ArmFacts:
    """One short request in the fullest dialect that the server takes. Raises ArmNotReady."""
    name = await _model(client, model)
    record = None
    for dialect in _DIALECTS:
        record = await _ask(client, name, prompt, workload, dialect)
        if not _refused(record):
            break
    assert record is not None  # noqa: S101  (there is at least one dialect)
    if record.error is not None:
        raise ArmNotReady(f"arm {client.variant} ({client.endpoint.url}): {record.error.kind}: {record.error.message}")
    return ArmFacts(
        model=name,
        dialect=dialect,
        chunk_tokens=all(chunk.tokens is not None for chunk in record.chunks),
        usage=record.completion_tokens is not None,
        metrics=await _has_metrics(client),
    )


async def _model(client: Client, wanted: str | None) -> str:
    """The served model's name; the only one where none was asked for."""
    where = f"arm {client.variant} ({client.endpoint.url})"
    try:
        reply = await fetch(client.endpoint, "GET", "/v1/models")
    except OSError as error:
        raise ArmNotReady(f"{where}: {error or type(error).__name__}") from None
    if reply.status in (401, 403):
        had = (
            "refused the API key that it was given"
            if client.endpoint.api_key
            else "demands an API key, and none is set"
        )
        variable = names.api_key_variable(client.variant)
        raise ArmNotReady(f"{where}: the server {had} (status {reply.status}): set {variable} or OPENAI_API_KEY")
    try:
        served = [str(entry["id"]) for entry in json.loads(reply.body)["data"]]
    except (ValueError, KeyError, TypeError):
        served = []
    if wanted is None:
        if len(served) != 1:
            raise ArmNotReady(f"{where}: name the model; the server lists {served or 'none'}")
        return served[0]
    if served and wanted not in served:
        raise ArmNotReady(f"{where}: the server does not serve {wanted!r}, but {', '.join(served)}")
    return wanted


async def _ask(client: Client, model: str, prompt: Prompt, workload: Workload, dialect: Dialect) -> RequestRecord:
    tokens = min(PROBE_TOKENS, workload.output_tokens)
    body = request_body(
        model=model,
        prompt=replace(prompt, output_tokens=None),
        index=0,
        workload=workload,
        dialect=dialect,
        output_tokens=tokens,
    )
    records: list[RequestRecord] = []
    plan = PlannedRequest(
        case="probe",
        index=0,
        warmup=True,
        body=body,
        prompt=prompt.identity,
        input_tokens=prompt.input_tokens,
        output_tokens=tokens,
        timeout_s=workload.timeout_s,
    )
    await client.request(plan, lambda make: records.append(make()))
    return records[0]


def _refused(record: RequestRecord) -> bool:
    """Whether the server understood the request and did not want it as it was."""
    return (
        record.error is not None
        and record.error.kind is ErrorKind.HTTP
        and record.error.http_status in (400, 415, 422, 501)
    )


async def _has_metrics(client: Client) -> bool:
    try:
        return (await fetch(client.endpoint, "GET", "/metrics")).status == 200
    except OSError:
        return False
