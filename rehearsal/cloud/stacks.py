"""CloudFormation's DescribeStacks: it answers when the stack has settled.

The CDK CLI asks every 5 s whether a stack is done (`waitFor` of its toolkit). A stack takes about 5 s here, minutes in
AWS, so up to half of a deployment would be waiting for the next question.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from ministack.services.cloudformation import handlers

LONGEST_S = 20.0
"""Longest time in seconds for which an answer is held back. The CLI then asks again."""
LOOK_S = 0.05


def settling(handle: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Wrap the emulator's dispatcher: DescribeStacks of a stack that is changing waits until it has changed."""

    async def handle_request(method: str, path: str, headers: Mapping[str, str], body: bytes, query: Any) -> Any:
        if b"Action=DescribeStacks" in body:
            deadline = time.monotonic() + LONGEST_S
            while _changing(body) and time.monotonic() < deadline:
                await asyncio.sleep(LOOK_S)
        return await handle(method, path, headers, body, query)

    return handle_request


def _changing(body: bytes) -> bool:
    """Whether the stack of a request is being created, updated or deleted. A review of a change set is no change."""
    name = parse_qs(body.decode(errors="replace")).get("StackName", [""])[0]
    stack = handlers._resolve_stack(name) or {}
    status = str(stack.get("StackStatus", ""))
    return status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS"
