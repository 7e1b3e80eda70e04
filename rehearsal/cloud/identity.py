"""Condition keys of IAM that the emulator leaves out or gives in another form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Principal = tuple[str, dict[str, Any]]


def one_audience(principal: Callable[..., Principal]) -> Callable[..., Principal]:
    """Wrap the emulator's reading of a token: a list with one audience, as EKS signs it, counts as that audience."""

    def web_identity_principal(*arguments: Any) -> Principal:
        provider, keys = principal(*arguments)
        return provider, {
            key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in keys.items()
        }

    return web_identity_principal


def with_metric_namespace(read: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap the emulator's reading of a request's condition keys: PutMetricData has `cloudwatch:namespace`."""

    def request_context(service: str, action: str, body: bytes, params: dict[str, Any]) -> dict[str, Any]:
        context = read(service, action, body, params)
        if action == "cloudwatch:PutMetricData" and body[:1] == b"{":
            context = {**context, "cloudwatch:namespace": json.loads(body).get("Namespace")}
        return context

    return request_context
