"""Whether anybody is told when something stays that costs money."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specdecode.cli.preflight.check import Ask, Check
from specdecode.experiment.deployment_facts import DeploymentFacts

GIVE = "deploy with -c alert_email=you@example.com, or with -c accept_no_alerts=true if nobody need be told"


def alerts(ask: Ask, topic: str | None) -> Iterator[Check]:
    """The topic's subscriptions, of which one must be confirmed; before a deployment, whether the settings have one."""
    if ask.facts.accept_no_alerts:
        yield Check("alerts", "ok", "nobody need be told (accept_no_alerts)")
    elif topic is None:
        yield before(ask.facts)
    else:
        pages = ask.client("sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
        yield subscribed([item for page in pages for item in page["Subscriptions"]])


def before(facts: DeploymentFacts) -> Check:
    """Of the settings."""
    if facts.alert_email:
        return Check("alerts", "ok", "an address is given; AWS mails it a link that must be opened")
    return Check("alerts", "fail", "nobody would be told of a node that stays or of a run that is stuck", GIVE)


def subscribed(subscriptions: Sequence[Mapping[str, str]]) -> Check:
    """Of the topic. An unconfirmed subscription has the word PendingConfirmation in place of its ARN (SNS API)."""
    confirmed = [item for item in subscriptions if item["SubscriptionArn"].startswith("arn:")]
    if confirmed:
        return Check("alerts", "ok", f"{len(confirmed)} confirmed subscription{'s' * (len(confirmed) > 1)}")
    if subscriptions:
        to = ", ".join(item["Endpoint"] for item in subscriptions)
        fix = 'open the link in the mail "AWS Notification - Subscription Confirmation"'
        return Check("alerts", "fail", f"the subscription of {to} is not confirmed: nobody is told yet", fix)
    return Check("alerts", "fail", "nobody is told of a node that stays or of a run that is stuck", GIVE)
