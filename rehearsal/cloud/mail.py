"""Mail subscriptions of SNS: pending until somebody opens the link that is mailed, and deleted after 48 hours if nobody
does (Amazon SNS developer guide, "Email subscription setup").

The mailbox is the file MAILS in the emulator's state folder: a line for each mail, with its address, topic and token.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ministack.core.responses import new_uuid
from ministack.services import sns

MAILS = "mails.jsonl"
LATER = "hours-later"
"""File in the same folder: by how many hours SNS's clock is ahead."""
LINK_S = 48 * 3600.0
PENDING = "PendingConfirmation"
"""In place of the ARN in lists (SNS API reference, ListSubscriptionsByTopic)."""


def confirming(handle: Callable[..., Awaitable[Any]], folder: Path) -> Callable[..., Awaitable[Any]]:
    """Wrap the emulator's dispatcher: before each request links are mailed, and subscriptions whose link is old go."""

    async def handle_request(method: str, path: str, headers: Mapping[str, str], body: bytes, query: Any) -> Any:
        asked = parse_qs(body.decode(errors="replace"))
        _look_after(folder)
        if asked.get("Action") == ["Subscribe"]:
            _mail_again(asked["Endpoint"][0])
        status, sent, answer = await handle(method, path, headers, body, query)
        _look_after(folder)
        for subscription in _pending() if asked.get("Action", [""])[0].startswith("ListSubscriptions") else ():
            answer = answer.replace(
                f"<SubscriptionArn>{subscription['arn']}<".encode(), f"<SubscriptionArn>{PENDING}<".encode()
            )
        return status, sent, answer

    return handle_request


def _look_after(folder: Path) -> None:
    """Mail the link of every new subscription, and delete those whose link nobody opened in time."""
    later = folder / LATER
    now = time.time() + (float(later.read_text()) * 3600 if later.exists() else 0.0)
    for topic in sns._topics.values():
        for subscription in topic["subscriptions"]:
            if subscription["protocol"] == "email" and "mailed" not in subscription:
                subscription |= {"mailed": now, "confirmed": False, "token": new_uuid()}
                mail = {"to": subscription["endpoint"], "topic": topic["arn"], "token": subscription["token"]}
                with (folder / MAILS).open("a", encoding="utf-8") as box:
                    box.write(json.dumps(mail) + "\n")
        topic["subscriptions"][:] = [
            one for one in topic["subscriptions"] if one["confirmed"] or now - one.get("mailed", now) < LINK_S
        ]
        sns._refresh_subscription_counts(topic)


def _mail_again(address: str) -> None:
    for subscription in _pending():
        if subscription["endpoint"] == address:
            subscription.pop("mailed", None)


def _pending() -> list[dict[str, Any]]:
    return [one for topic in sns._topics.values() for one in topic["subscriptions"] if not one["confirmed"]]
