"""The watchdog's first heartbeat, sent by itself while it is deployed. So the alarm on missing ones is no false one on
every new deployment, and a watchdog that cannot run is found now, not when a node is left running.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

SEEN_WITHIN = timedelta(minutes=15)
"""The alarm's own range: three periods of five minutes."""
READABLE_S = 12 * 60.0
"""Seconds until CloudWatch must show the heartbeat. After SEEN_WITHIN it could be too old to be found."""

ASKED_ONCE = Config(connect_timeout=5, read_timeout=35, retries={"total_max_attempts": 1})
"""Below RESERVE_MS (waiting.py): a watchdog that hangs leaves the guard time to answer. The guard calls again."""


def works(function: str, *, lambda_client: Any) -> Callable[[], list[str]]:
    """A look that calls the watchdog: why it could not be called, its error, or what it could not do. New rights, a
    throttled call and a slow first start pass by themselves.
    """

    def look() -> list[str]:
        try:
            answer = lambda_client.invoke(FunctionName=function, InvocationType="RequestResponse", Payload=b"{}")
            said = json.loads(answer["Payload"].read())
        except (ClientError, BotoCoreError, ValueError) as error:
            return [f"{function} cannot be asked: {type(error).__name__}: {error}"]
        if "FunctionError" in answer:
            return [f"{said.get('errorType', 'error')}: {said.get('errorMessage', said)}"]
        return [str(problem) for problem in said.get("problems") or []]

    return look


def readable(*, namespace: str, metric: str, metrics: Any) -> Callable[[], list[str]]:
    """A look for the heartbeat in CloudWatch. It returns why it cannot be read yet."""

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
