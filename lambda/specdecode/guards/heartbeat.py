"""The watchdog's first heartbeat: sent by the watchdog itself while it is being deployed.

The alarm on missing heartbeats would go off on every new deployment; and a watchdog that cannot run is found now, and
not when a node is left running.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

SEEN_WITHIN = timedelta(minutes=15)
"""The alarm's own range: three periods of five minutes."""
READABLE_S = 12 * 60.0
"""For CloudWatch to show what was sent. It stays below SEEN_WITHIN, so that the heartbeat is still in the range."""


def works(function: str, *, lambda_client: Any) -> Callable[[], list[str]]:
    """A look that runs the watchdog; it returns the function's error, or what the watchdog could not do."""

    def look() -> list[str]:
        answer = lambda_client.invoke(FunctionName=function, InvocationType="RequestResponse", Payload=b"{}")
        said = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            return [f"{said.get('errorType', 'error')}: {said.get('errorMessage', said)}"]
        return [str(problem) for problem in said.get("problems") or []]

    return look


def readable(*, namespace: str, metric: str, metrics: Any) -> Callable[[], list[str]]:
    """A look for the heartbeat in CloudWatch; it returns why it cannot be read yet."""

    def look() -> list[str]:
        now = datetime.now(UTC)
        try:
            found = metrics.get_metric_statistics(
                Namespace=namespace,
                MetricName=metric,
                StartTime=now - SEEN_WITHIN,
                EndTime=now,
                Period=300,
                Statistics=["Sum"],
            )
        except (ClientError, BotoCoreError) as error:
            return [f"{metric} cannot be read: {error}"]
        return [] if found["Datapoints"] else [f"CloudWatch has no {metric} of it yet"]

    return look
