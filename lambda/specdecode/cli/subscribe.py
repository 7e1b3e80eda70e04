"""`specdecode subscribe`: who gets the alerts, and the mail with the link once more."""

import typer

from specdecode.cli.options import STACK, Profile, Region, Stack
from specdecode.cli.output import EXIT_ENVIRONMENT, EXIT_USAGE, say, stop_with


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(subscribe)


def subscribe(stack: Stack = STACK, region: Region = None, profile: Profile = None) -> None:
    """Have AWS mail the deployment's address (`alert_email`) a new link, unless the address is confirmed.

    AWS deletes a subscription whose link nobody opens within 48 hours, and another deployment does not bring it back.

    Exit codes: 0 confirmed, or a mail is on its way, 2 the deployment has no address, 3 it cannot be reached.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from specdecode.cli.aws_errors import what_to_do
    from specdecode.cli.runs_deployment import Deployment
    from specdecode.experiment import kept
    from specdecode.runs import told

    deployment = Deployment(stack=stack, region=region, profile=profile)
    topic, sns = deployment.outputs["AlertsTopicArn"], deployment.client("sns")
    try:
        address = (kept.of_stack(deployment.client("cloudformation")) or {}).get("alert_email")
        if address is None:
            raise stop_with(f"this deployment has no address: {told.GIVE}", EXIT_USAGE)
        pages = sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
        if told.confirmed(told.of(address, [item for page in pages for item in page["Subscriptions"]])):
            say(f"{address} is confirmed and gets the alerts")
            return
        sns.subscribe(TopicArn=topic, Protocol="email", Endpoint=address)
    except (ClientError, BotoCoreError) as error:
        raise stop_with(f"{error} ({what_to_do(error)})", EXIT_ENVIRONMENT) from None
    say(f'AWS mails {address} a link, "AWS Notification - Subscription Confirmation". Open it within 48 hours.')
