"""Whose credentials these are, and for which region."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from specdecode.cli.preflight.check import Check
from specdecode.experiment.deployment_facts import DeploymentFacts


def credentials(client: Callable[[str], Any], accounts: list[str]) -> Iterator[Check]:
    """The caller's identity. The account's number is put into `accounts`."""
    found = client("sts").get_caller_identity()
    accounts.append(found["Account"])
    yield Check("credentials", "ok", found["Arn"])


def place(facts: DeploymentFacts, *, account: str | None, region: str) -> Iterator[Check]:
    """The session's account (None: not known) and region against the deployment's."""
    if account is not None and facts.account not in (None, account):
        fix = f"take credentials of {facts.account} (--profile), or change the setting `account`"
        yield Check("account", "fail", f"the deployment goes to {facts.account}, the credentials are of {account}", fix)
    if facts.region == region:
        yield Check("region", "ok", region)
    else:
        fix = f"export AWS_REGION={facts.region}, or deploy with -c region={region}"
        yield Check("region", "fail", f"the deployment is for {facts.region}, you ask in {region}", fix)
