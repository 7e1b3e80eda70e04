"""Waits longer than one Lambda may run: look, sleep, and hand over to a new invocation of the same function.

And looks for the watchdog's first heartbeat, which it sends itself while it is deployed. So the alarm on missing ones
is no false one on every new deployment, and a watchdog that cannot run is found now, not when a node is left running.
"""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

LIMIT_S = 55 * 60.0
"""Longest wait. CloudFormation gives a custom resource an hour."""
SOON_S = 3 * 60.0
"""Wait for things that should come within a minute or two: conditions of Karpenter, new rights."""
REFUSED_S = 45 * 60.0
"""Wait for a dry run that AWS refused, perhaps because rights had not taken effect. Karpenter 1.14.1 keeps the refusal
for 30 minutes (pkg/cache/cache.go, ValidationTTL) and looks again up to 10 minutes later (nodeclass/validation.go).
"""
POLL_S = 10
RESERVE_MS = 60_000
"""Time of an invocation that is kept for the answer or for the next invocation."""
DEADLINE = "Deadline"
"""Key in the event that tells the next invocation when to give up (seconds since the epoch)."""
SECOND_DEADLINE = "SecondDeadline"
"""The same for a guard's second wait. If the key exists, the first wait is over."""


class Context(Protocol):
    """The part of Lambda's context that is used."""

    invoked_function_arn: str

    def get_remaining_time_in_millis(self) -> int: ...


class HandedOver(Exception):
    """A new invocation goes on waiting and will answer. This one is done."""


class StillThere(Exception):
    """Something that should be gone still exists. The message says what."""


def wait_until_gone(
    look: Callable[[], list[str]],
    *,
    event: dict[str, Any],
    context: Context,
    lambda_client: Any,
    limit_s: float = LIMIT_S,
    key: str = DEADLINE,
) -> None:
    """Call `look` until it names nothing any more. `key` is the place of this wait's deadline in the event.

    Raises HandedOver when this invocation's time is up, and StillThere when the deadline has passed.
    """
    deadline = float(event.get(key) or time.time() + limit_s)
    while left := look():
        if time.time() >= deadline:
            raise StillThere(", ".join(left))
        if context.get_remaining_time_in_millis() < RESERVE_MS:
            lambda_client.invoke(
                FunctionName=context.invoked_function_arn,
                InvocationType="Event",
                Payload=json.dumps({**event, key: deadline}).encode(),
            )
            raise HandedOver
        time.sleep(POLL_S)


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
