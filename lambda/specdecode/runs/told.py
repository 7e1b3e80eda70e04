"""Whether somebody gets a message about something that stays and costs money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specdecode.experiment.kept import deploy_with

GIVE = (
    f"{deploy_with({'alert_email': 'you@example.com'})}; or, if nobody need be told, the setting accept_no_alerts=true"
)


def confirmed(subscriptions: Sequence[Mapping[str, str]]) -> int:
    """The confirmed subscriptions of the alerts topic. Others have the word PendingConfirmation in place of an ARN (SNS
    API reference, ListSubscriptionsByTopic).
    """
    return sum(item["SubscriptionArn"].startswith("arn:") for item in subscriptions)


def untold(subscriptions: Sequence[Mapping[str, str]]) -> tuple[str, str] | None:
    """Why nobody gets the alerts, and what to do. None if somebody does. `subscriptions`: all of the alerts topic."""
    if confirmed(subscriptions):
        return None
    if subscriptions:
        to = ", ".join(item["Endpoint"] for item in subscriptions)
        fix = 'open the link in the mail "AWS Notification - Subscription Confirmation"'
        return f"the subscription of {to} is not confirmed: nobody is told yet", fix
    return "nobody is told of a node that stays or of a run that is stuck", GIVE
