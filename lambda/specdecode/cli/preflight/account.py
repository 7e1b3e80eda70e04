"""Who asks, and where."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.cli.preflight.check import Ask, Check
from specdecode.experiment.deployment_facts import DeploymentFacts


def credentials(ask: Ask) -> Iterator[Check]:
    """Whose they are, and whether they are of the account and in the region of the deployment."""
    found = ask.client("sts").get_caller_identity()
    yield Check("credentials", "ok", found["Arn"])
    yield from place(ask.facts, account=found["Account"], region=ask.region)


def place(facts: DeploymentFacts, *, account: str, region: str) -> Iterator[Check]:
    """The session's account and region against the deployment's."""
    if facts.account not in (None, account):
        fix = f"take credentials of {facts.account} (--profile), or change the setting `account`"
        yield Check("account", "fail", f"the deployment goes to {facts.account}, the credentials are of {account}", fix)
    if facts.region == region:
        yield Check("region", "ok", region)
    else:
        fix = f"export AWS_REGION={facts.region}, or deploy with -c region={region}"
        yield Check("region", "fail", f"the deployment is for {facts.region}, you ask in {region}", fix)
