"""What the deployment was given, kept where every later command finds it (ADR 199); and who gets its alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode.cli.options import WHERE, Profile, Where
from specdecode.cli.output import EXIT_ENVIRONMENT, complain, is_interactive, say, stop_with
from specdecode.names import CLUSTER_STACK, STACK
from specdecode.untrusted import quoted

if TYPE_CHECKING:
    from specdecode.experiment.kept import KeptSettings


def configure(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings (docs/settings.md); an empty value drops one."),
    ] = None,
    profile: Profile = None,
) -> None:
    """Keep the settings of the deployment in deployment.json, where every later command finds them, region included.

    It takes over what a deployed stack has, so that no deployment drops a setting, and says what the next deployment
    changes. It deploys nothing. Without settings and without a deployment it asks for the two that matter first.

    Exit codes: 0 kept, 2 a setting cannot work or change, 3 this is no checkout, or the deployment is elsewhere.
    """
    from specdecode.cli.preflight.account import facts_of_checkout
    from specdecode.experiment import kept

    root = kept.checkout()
    if root is None:
        raise stop_with("settings are kept beside cdk.json: run this in the checkout", EXIT_ENVIRONMENT)
    file, given = kept.read(root), _pairs(settings or [])
    region = given.get("region") or file.settings.get("region") or _said()
    _not_elsewhere(file, region, profile)
    deployed = _deployed(region, profile)
    if not given and not file.settings and not deployed and is_interactive():
        say("Who gets a mail about a node that stays, at $36 an hour, or a run that is stuck?")
        address = typer.prompt("  address, or `nobody`").strip()
        region = typer.prompt("In which region?", default=region)
        told = {"accept_no_alerts": "true"} if address == "nobody" else {"alert_email": address}
        given = {**told, "region": region}
    there = deployed or {}  # but for the changes that the file makes on purpose
    held = {key: value for key, value in there.items() if file.replaces.get(key) != value}
    wanted = {**file.settings, **held, "region": region, **given}
    facts = facts_of_checkout(["--alone", *(f"{key}={value}" for key, value in wanted.items())])
    final = facts.settings or {}
    if deployed is None:  # what the file had is taken for deployed until somebody can look
        replaces = {lost.key: lost.deployed for lost in kept.changed(file.settings, final)} | file.replaces
    elif reason := kept.fixed(deployed, final):
        raise stop_with(reason)
    else:
        replaces = {lost.key: lost.deployed for lost in kept.changed(deployed, final)}
    try:
        kept.write(root, kept.KeptSettings(settings=final, replaces=replaces))
    except OSError as error:
        raise stop_with(f"{kept.FILE} cannot be written: {error}", EXIT_ENVIRONMENT) from None
    _tell(final, deployed)
    for key, value in file.settings.items():
        if key not in given and final.get(key) != value:
            say(f"{kept.FILE} had {key}={kept.short(value)}; the deployed stack has the other, which is kept")


def _pairs(words: list[str]) -> dict[str, str]:
    wrong = [word for word in words if "=" not in word]
    if wrong:
        raise stop_with(f"write settings as KEY=VALUE, not {', '.join(map(quoted, wrong))} (docs/settings.md)")
    pairs = [(key, value) for key, _, value in (word.partition("=") for word in words)]
    if twice := [f"{key}={value}" for key, value in pairs if dict(pairs)[key] != value]:
        raise stop_with(f"two values for one setting: {', '.join(twice)} and another one")
    return dict(pairs)


def _said() -> str:
    """The region of the environment. Without one the setting's default."""
    from specdecode import aws

    try:
        return str(aws.session().region_name)
    except aws.NoRegion:
        return "us-east-2"


def _deployed(region: str, profile: str | None) -> dict[str, str] | None:
    """The settings of the deployed stack; empty if there is none, or if it does not say. None if nobody could look."""
    from botocore.exceptions import BotoCoreError, ClientError

    from specdecode.cli.runs_deployment import session_of
    from specdecode.experiment import kept

    try:
        return kept.of_stack(session_of(region, profile).client("cloudformation")) or {}
    except (ClientError, BotoCoreError) as error:
        complain(f"could not look whether {region} has a deployment, whose settings would be kept: {error}")
        return None


def _not_elsewhere(file: KeptSettings, region: str, profile: str | None) -> None:
    """A deployment cannot move: one that stands in another region would go on, and cost, unseen."""
    before = file.settings.get("region", region)
    if before == region:
        return
    stands = _stands(before, profile)
    if stands is None:
        raise stop_with(
            f"nobody could look whether a deployment stands in {before}: it would go on, and cost. Give credentials, "
            f"or use another checkout for one in {region}",
            EXIT_ENVIRONMENT,
        )
    if stands:
        raise stop_with(
            f"the deployment stands in {before}; destroy it first (`specdecode destroy`), or use another checkout for "
            f"one in {region}",
            EXIT_ENVIRONMENT,
        )


def _stands(region: str, profile: str | None) -> bool | None:
    """Whether either stack is there, of any version and in any state. None if nobody could look."""
    from botocore.exceptions import BotoCoreError, ClientError

    from specdecode.cli.runs_deployment import session_of, stack_named

    try:
        client = session_of(region, profile).client("cloudformation")
        return any(stack_named(client, name) for name in (STACK, CLUSTER_STACK))
    except (ClientError, BotoCoreError) as error:
        complain(f"could not look whether {region} has a deployment: {error}")
        return None


def _tell(settings: Mapping[str, str], deployed: Mapping[str, str] | None) -> None:
    from specdecode.experiment import kept

    say(f"{kept.FILE} keeps:")
    for key, value in settings.items():
        say(f"  {key}={kept.short(value)}")
    if deployed:
        for key in sorted({*settings, *deployed}):
            before, after = deployed.get(key, "none"), settings.get(key, "none")
            if before != after:
                say(f"the next deployment changes {key}: {kept.short(before)} -> {kept.short(after)}")
    if not {"alert_email", "accept_no_alerts"} & set(settings):
        say(f"nobody is told of a node that stays: `{kept.CONFIGURE} alert_email=you@example.com`")
    say(f"deploy with: {kept.DEPLOY}")


def subscribe(where: Where = WHERE) -> None:
    """Have AWS mail the deployment's address (`alert_email`) a new link, unless the address is confirmed.

    AWS deletes a subscription whose link nobody opens within 48 hours, and another deployment does not bring it back.

    Exit codes: 0 confirmed, or a mail is on its way, 2 the deployment has no address, 3 it cannot be reached.
    """
    from specdecode.experiment import kept
    from specdecode.runs import subscriptions

    deployment = where.deployment()
    topic, sns = deployment.outputs["AlertsTopicArn"], deployment.client("sns")
    address = (kept.of_stack(deployment.client("cloudformation")) or {}).get("alert_email")
    if address is None:
        raise stop_with(f"this deployment has no address: {subscriptions.GIVE}")
    pages = sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    if subscriptions.confirmed(subscriptions.of(address, [item for page in pages for item in page["Subscriptions"]])):
        say(f"{address} is confirmed and gets the alerts")
        return
    sns.subscribe(TopicArn=topic, Protocol="email", Endpoint=address)
    say(f'AWS mails {address} a link, "AWS Notification - Subscription Confirmation". Open it within 48 hours.')
