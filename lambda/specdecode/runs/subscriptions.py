"""Whether somebody gets a message about something that stays and costs money."""

from collections.abc import Mapping, Sequence

from specdecode.experiment.kept import deploy_with

GIVE = (
    f"{deploy_with({'alert_email': 'you@example.com'})}; or, if nobody need be told, the setting accept_no_alerts=true"
)
SUBSCRIBE = ".venv/bin/specdecode subscribe"
LINK_HOURS = 48
"""Hours for which the link in AWS's mail is good. SNS then deletes the subscription, and another deployment does not
bring it back, since the template still has it."""


def confirmed(subscriptions: Sequence[Mapping[str, str]]) -> int:
    """How many are confirmed: others have a word in place of an ARN (SNS API reference, ListSubscriptionsByTopic)."""
    return sum(item["SubscriptionArn"].startswith("arn:") for item in subscriptions)


def pending(subscriptions: Sequence[Mapping[str, str]]) -> list[str]:
    return [item["Endpoint"] for item in subscriptions if item["SubscriptionArn"] == "PendingConfirmation"]


def of(address: str | None, subscriptions: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The subscriptions that count: those of the address that the deployment names. Without one, all."""
    return [item for item in subscriptions if address is None or item["Endpoint"].casefold() == address.casefold()]


def untold(subscriptions: Sequence[Mapping[str, str]], *, address: str | None) -> tuple[str, str] | None:
    """Why nobody gets the alerts, and what to do; None if somebody does. `subscriptions`: all of the topic; `address`:
    the deployment's. A former one does not count.
    """
    own = of(address, subscriptions)
    if confirmed(own):
        return None
    if waiting := pending(own):
        fix = (
            'open the link in the mail "AWS Notification - Subscription Confirmation"; '
            f"`{SUBSCRIBE}` has it mailed again"
        )
        return f"the subscription of {', '.join(waiting)} is not confirmed: nobody is told yet", fix
    if address:
        return (
            f"nobody is told: the link that AWS mailed was not opened within {LINK_HOURS} hours, so SNS deleted the "
            "subscription (or somebody ended it)",
            f"`{SUBSCRIBE}`, then open the link in the new mail",
        )
    return "nobody is told of a node that stays or of a run that is stuck", GIVE
