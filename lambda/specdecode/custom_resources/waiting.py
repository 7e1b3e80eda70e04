"""Waiting longer than one Lambda may run: look, sleep, and hand over to a fresh invocation of the same function."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Protocol

LIMIT_S = 55 * 60.0
"""CloudFormation gives a custom resource an hour."""
SOON_S = 3 * 60.0
"""For what should come by itself within a minute or two: conditions of Karpenter, rights that have just been given."""
REFUSED_S = 45 * 60.0
"""For a dry run that AWS refused, perhaps because IAM had not yet propagated: Karpenter 1.14.1 keeps the refusal for 30
minutes (pkg/cache/cache.go, ValidationTTL) and looks again up to 10 minutes later (nodeclass/validation.go)."""
POLL_S = 10
RESERVE_MS = 60_000
"""Time of an invocation that is kept for the answer or the handover."""
DEADLINE = "Deadline"
"""Key in the event under which an invocation tells the next when to give up (seconds since the epoch)."""
SECOND_DEADLINE = "SecondDeadline"
"""The same for a guard's second wait; where it is there, the first is over."""


class Context(Protocol):
    """What is used of Lambda's context."""

    invoked_function_arn: str

    def get_remaining_time_in_millis(self) -> int: ...


class HandedOver(Exception):
    """A fresh invocation goes on waiting and will answer; this one is done."""


class StillThere(Exception):
    """What should have gone is still there, a problem among it; the message says what."""


def wait_until_gone(
    look: Callable[[], list[str]],
    *,
    event: dict[str, Any],
    context: Context,
    lambda_client: Any,
    limit_s: float = LIMIT_S,
    key: str = DEADLINE,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
) -> None:
    """Call `look` until it names nothing any more. `key` is where the event has the deadline of this wait.

    Raises HandedOver when this invocation's time is up, StillThere when the deadline is past.
    """
    deadline = float(event.get(key) or now() + limit_s)
    while left := look():
        if now() >= deadline:
            raise StillThere(", ".join(left))
        if context.get_remaining_time_in_millis() < RESERVE_MS:
            lambda_client.invoke(
                FunctionName=context.invoked_function_arn,
                InvocationType="Event",
                Payload=json.dumps({**event, key: deadline}).encode(),
            )
            raise HandedOver
        sleep(POLL_S)
