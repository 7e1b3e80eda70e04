"""Whether somebody gets a message about something that stays and costs money."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specdecode.cli.preflight.check import Ask, Check
from specdecode.experiment.deployment_facts import DeploymentFacts
from specdecode.runs.told import GIVE, confirmed, untold


def alerts(ask: Ask, topic: str | None) -> Iterator[Check]:
    """The topic's subscriptions: one must be confirmed. Before a deployment: whether the settings name an address."""
    if ask.facts.accept_no_alerts:
        yield Check("alerts", "ok", "no address is needed (accept_no_alerts)")
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
    """Of the topic."""
    problem = untold(subscriptions)
    if problem:
        return Check("alerts", "fail", *problem)
    count = confirmed(subscriptions)
    return Check("alerts", "ok", f"{count} confirmed subscription{'s' * (count > 1)}")
