"""Waits longer than one Lambda may run: look, sleep, and hand over to a new invocation of the same function."""

import json
import time
from collections.abc import Callable
from typing import Any, Protocol

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
