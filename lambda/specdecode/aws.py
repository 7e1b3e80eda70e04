"""The only place that makes AWS sessions: for command line, functions and programs in pods (ADR 113)."""

import os
from typing import Any

import boto3
import botocore.session
from botocore.config import Config


class NoRegion(Exception):
    """No region is chosen. The message says how to choose one."""

    def __init__(self) -> None:
        super().__init__(
            "no AWS region is chosen: `export AWS_REGION=us-east-2` (the deployment's), or give --region, "
            "or a --profile that has one"
        )


def session(*, region: str | None = None, profile: str | None = None) -> boto3.Session:
    """A session in `region` with the credentials of `profile`, or those of the environment.

    The region is, as for the AWS CLI, the first of: `region`, AWS_REGION (which boto3 itself does not read,
    boto3#3620), AWS_DEFAULT_REGION, the profile's. STS is always called there: boto3 before 1.40 calls the global
    endpoint (boto3#4583), whose signature is for us-east-1.

    Raises NoRegion, and botocore's ProfileNotFound.
    """
    core = botocore.session.Session()
    core.set_config_variable("sts_regional_endpoints", "regional")
    named = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    made = boto3.Session(botocore_session=core, region_name=named or None, profile_name=profile)
    if made.region_name is None:
        raise NoRegion
    return made


_process: list[boto3.Session] = []


def choose(*, region: str | None = None, profile: str | None = None) -> None:
    """Make the session that `client` uses, for a program with these options."""
    _process[:] = [session(region=region, profile=profile)]


def client(service: str, *, config: Config | None = None) -> Any:
    """A client of the process's session. All clients share its credentials, which are fetched once."""
    if not _process:
        choose()
    return _process[0].client(service, config=config)


def profiles() -> list[str]:
    """The names of the profiles in the AWS configuration, in order."""
    return sorted(botocore.session.Session().available_profiles)
