"""The result of one check, and what an error of AWS means for it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

import typer
from botocore.exceptions import BotoCoreError, ClientError

from specdecode.aws import NoRegion
from specdecode.cli.aws_errors import DENIED, what_to_do
from specdecode.experiment.deployment_facts import DeploymentFacts
from specdecode.experiment.kept import BadFile

Verdict = Literal["ok", "warn", "fail"]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Check:
    """The result of one check. `fix` says what to do, unless all is well."""

    name: str
    verdict: Verdict
    detail: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The clients and facts that a check needs."""

    client: Callable[[str], Any]
    """boto3 service name -> client."""
    region: str
    """The session's: what a check asks, it asks there."""
    facts: DeploymentFacts
    deployed: bool
    """Whether the facts are of a stack that exists."""
    now: datetime


def tried(name: str, check: Callable[[], Iterable[Check]]) -> list[Check]:
    """The result of `check`. A refused one is a warning. Any other error is a failure of this check only."""
    try:
        return list(check())
    except (typer.Exit, NoRegion, BadFile):
        raise
    except (ClientError, BotoCoreError) as error:
        code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
        if code in DENIED:
            return [Check(name, "warn", f"you may not look: {code}", what_to_do(error))]
        return [Check(name, "fail", f"could not look: {error}", what_to_do(error))]
    except Exception as error:
        detail = f"could not look at {name}: {type(error).__name__}: {error}"
        return [Check(name, "fail", detail, "look in the console; this is an error of specdecode: please report it")]


def unless(absent: str | tuple[str, ...], ask: Callable[[], Answer]) -> Answer | None:
    """AWS's answer. None if its error's code begins with `absent`, which says that there is no such thing."""
    try:
        return ask()
    except ClientError as error:
        if error.response["Error"]["Code"].startswith(absent):
            return None
        raise
