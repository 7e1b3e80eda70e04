"""A folder in S3 for results. boto3 is imported at the first call, since the import costs half a second of CPU time."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

CONTENT_TYPES = {".jsonl": "application/x-ndjson", ".json": "application/json"}


class S3Error(Exception):
    """S3 did not store or return a file. The message says which and why."""


class S3Folder:
    """`s3://bucket/prefix/`."""

    def __init__(self, uri: str) -> None:
        scheme, _, rest = uri.partition("://")
        bucket, _, prefix = rest.partition("/")
        if scheme != "s3" or not bucket:
            raise ValueError(f"{uri!r} is not an s3://bucket/prefix/ address")
        self.bucket = bucket
        self.prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        self.uri = f"s3://{self.bucket}/{self.prefix}"

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config

        from specdecode import aws

        return aws.client("s3", config=Config(connect_timeout=5, retries={"mode": "standard", "max_attempts": 5}))

    def get(self, name: str) -> bytes | None:
        """Content, or None if there is no such file. Raises S3Error."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return bytes(self._client.get_object(Bucket=self.bucket, Key=self.prefix + name)["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404", "AccessDenied"):
                return None  # without s3:ListBucket a missing key is denied, not missing
            raise S3Error(f"cannot read {self.uri}{name}: {error}") from None
        except (BotoCoreError, RuntimeError) as error:  # the last: a session that nobody renewed
            raise S3Error(f"cannot read {self.uri}{name}: {error}") from None

    def put(self, name: str, path: Path) -> None:
        """Store a file, read while it is sent. Raises S3Error."""
        with path.open("rb") as file:
            self._put(name, file)

    def write(self, name: str, content: bytes) -> None:
        """Store a few bytes. Raises S3Error."""
        self._put(name, content)

    def _put(self, name: str, body: bytes | BinaryIO) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        kind = CONTENT_TYPES.get(name[name.rfind(".") :], "application/octet-stream")
        try:
            self._client.put_object(Bucket=self.bucket, Key=self.prefix + name, Body=body, ContentType=kind)
        except (BotoCoreError, ClientError, RuntimeError) as error:
            raise S3Error(f"cannot write {self.uri}{name}: {error}") from None
