"""The artifact bucket for the steps: JSON and text by key. The state machine itself carries only keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from specdecode import s3_keys

_ABSENT = {"NoSuchKey", "404", "NotFound"}
_PIECE = 1 << 20
"""Bytes of a large object that are read at once."""


class Store:
    """Objects of one bucket, through the boto3 S3 client `s3`."""

    def __init__(self, *, s3: Any, bucket: str) -> None:
        self.s3 = s3
        self.bucket = bucket

    def read(self, key: str, *, at_most: int | None = None) -> bytes | None:
        """The object's bytes, or its first `at_most`. None if it does not exist."""
        return self.read_tagged(key, at_most=at_most)[0]

    def read_tagged(self, key: str, *, at_most: int | None = None) -> tuple[bytes | None, str | None]:
        """The same with the object's ETag."""
        try:
            found = self.s3.get_object(Bucket=self.bucket, Key=key)
            data: bytes = found["Body"].read(at_most)
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return None, None
            raise
        return data, found.get("ETag")

    def lines(self, key: str) -> Iterator[bytes]:
        """The object's lines, read one by one. Empty if it does not exist."""
        try:
            body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"]
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return
            raise
        rest = b""
        while piece := body.read(_PIECE):
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
        if rest:
            yield rest

    def read_json(self, key: str) -> Any:
        """The object as JSON, or None if it does not exist."""
        data = self.read(key)
        return None if data is None else json.loads(data)

    def write(
        self,
        key: str,
        data: str | bytes,
        *,
        content_type: str = "application/json",
        condition: Mapping[str, str] | None = None,
    ) -> None:
        """`condition`: IfMatch or IfNoneMatch, for compare-and-swap."""
        body = data.encode() if isinstance(data, str) else data
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type, **(condition or {}))

    def copy(self, source: str, target: str, *, condition: Mapping[str, str] | None = None) -> None:
        origin = {"Bucket": self.bucket, "Key": source}
        self.s3.copy_object(Bucket=self.bucket, Key=target, CopySource=origin, **(condition or {}))

    def keys(self, prefix: str) -> list[str]:
        """All keys below `prefix`, sorted."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", []))

    def folders(self, prefix: str) -> list[str]:
        """The folders directly below `prefix`."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, Delimiter="/")
        found = [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", [])]
        return sorted(item[len(prefix) :].rstrip("/") for item in found)

    def is_complete(self, prefix: str) -> bool:
        """Whether the folder counts: whether its COMPLETE.json exists."""
        return self.read(prefix + s3_keys.COMPLETE) is not None

    def url(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"
