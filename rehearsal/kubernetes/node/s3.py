"""A bucket's prefix as a read-only folder, with the rights of an IAM role."""

from pathlib import Path
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

_CONFIG = Config(
    proxies={}, connect_timeout=5, read_timeout=60, retries={"max_attempts": 2}, s3={"addressing_style": "path"}
)


class PlaceError(Exception):
    """S3 or STS refuses a call, or cannot be reached."""


def fetch(*, endpoint: str, region: str, role_arn: str, token: str, bucket: str, prefix: str, folder: Path) -> int:
    """Copy the objects below `prefix` into `folder`, as the role that `token` may assume. Returns their number.

    Files get mode 444 and folders 555. Raises PlaceError.
    """
    try:
        client = client_of("s3", endpoint, region, role_arn=role_arn, token=token)
        count = 0
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for entry in page.get("Contents", ()):
                key = entry["Key"]
                if key.endswith("/"):
                    continue
                target = folder / key.removeprefix(prefix).lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                client.download_file(bucket, key, str(target))
                target.chmod(0o444)
                count += 1
    except (ClientError, BotoCoreError, OSError) as problem:
        raise PlaceError(str(problem)) from None
    for path in (folder, *(p for p in folder.rglob("*") if p.is_dir())):
        path.chmod(0o555)
    return count


def client_of(service: str, endpoint: str, region: str, *, role_arn: str, token: str) -> Any:
    """A client of AWS as the role that `token` may assume."""
    sts = boto3.client(
        "sts", endpoint_url=endpoint, region_name=region, config=_CONFIG.merge(Config(signature_version=UNSIGNED))
    )
    answer = sts.assume_role_with_web_identity(
        RoleArn=role_arn, RoleSessionName=f"{service}-of-the-node", WebIdentityToken=token
    )
    keys = answer["Credentials"]
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
        config=_CONFIG,
    )
