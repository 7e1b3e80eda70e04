"""One bucket of S3, for the steps, the pods and the command line. What is absent is None, all else botocore's error.

It imports no library: a benchmark that stores nothing in S3 spends no time on boto3.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
"""S3's codes for a missing object. The answer to HEAD has no body: botocore takes its status in place of a code."""
_DELETED_AT_ONCE = 1000
"""Most keys of one DeleteObjects (S3 API reference)."""
_PIECE = 1 << 20
"""Bytes of a large object that are read at once."""


def error_code(error: BaseException) -> str:
    """AWS's code in botocore's ClientError; else "", also for a timeout of botocore, whose `response` is None."""
    return str((getattr(error, "response", None) or {}).get("Error", {}).get("Code", ""))


class NotDeleted(Exception):
    """S3 keeps an object that was to be deleted. The message says which, and why."""


class Store:
    """Objects of one bucket, through the boto3 S3 client `s3`."""

    def __init__(self, *, s3: Any, bucket: str) -> None:
        self.s3 = s3
        self.bucket = bucket

    def read(self, key: str, *, at_most: int | None = None) -> bytes | None:
        """The object's bytes, or its first `at_most`. None if it does not exist."""
        return self.read_tagged(key, at_most=at_most)[0]

    def read_tagged(self, key: str, *, at_most: int | None = None) -> tuple[bytes | None, str | None]:
        try:
            found = self.s3.get_object(Bucket=self.bucket, Key=key)
            data: bytes = found["Body"].read(at_most)
            # A connection that was cut looks like the end of the object until one reads on: then botocore raises.
            while at_most and len(data) < at_most and (more := found["Body"].read(at_most - len(data))):
                data += more
        except Exception as error:
            if error_code(error) in ABSENT:
                return None, None
            raise
        return data, found.get("ETag")

    def lines(self, key: str) -> Iterator[bytes]:
        """The object's lines, read one by one. Empty if it does not exist."""
        try:
            body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"]
        except Exception as error:
            if error_code(error) in ABSENT:
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
        data: str | bytes | BinaryIO,
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

    def tags(self, key: str) -> dict[str, str] | None:
        """The metadata that `upload` gave the object. None if it does not exist."""
        try:
            return dict(self.s3.head_object(Bucket=self.bucket, Key=key)["Metadata"])
        except Exception as error:
            if error_code(error) in ABSENT:
                return None
            raise

    def download(self, key: str, path: Path) -> None:
        self.s3.download_file(self.bucket, key, str(path))

    def upload(self, path: Path, key: str, *, tags: Mapping[str, str]) -> None:
        """Copy a file to the object, in parts. `tags` become its metadata."""
        self.s3.upload_file(str(path), self.bucket, key, ExtraArgs={"Metadata": dict(tags)})

    def listing(self, prefix: str) -> dict[str, tuple[int, str]]:
        """Path below `prefix` -> size in bytes and ETag, in order."""
        items = sorted(self._items(prefix), key=lambda item: str(item["Key"]))
        return {item["Key"][len(prefix) :]: (item["Size"], item["ETag"].strip('"')) for item in items}

    def keys(self, prefix: str) -> list[str]:
        return sorted(item["Key"] for item in self._items(prefix))

    def folders(self, prefix: str) -> list[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, Delimiter="/")
        found = [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", [])]
        return sorted(item[len(prefix) :].rstrip("/") for item in found)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the objects. Raises NotDeleted."""
        for at in range(0, len(keys), _DELETED_AT_ONCE):
            named = [{"Key": key} for key in keys[at : at + _DELETED_AT_ONCE]]
            answer = self.s3.delete_objects(Bucket=self.bucket, Delete={"Objects": named, "Quiet": True})
            for kept in answer.get("Errors", ()):
                raise NotDeleted(
                    f"S3 does not delete {self.url(kept['Key'])}: {kept.get('Message', 'no reason given')}"
                )

    def _items(self, prefix: str) -> Iterator[dict[str, Any]]:
        """What S3 lists below `prefix`, without the object that stands for the folder itself."""
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            yield from (item for item in page.get("Contents", ()) if item["Key"] != prefix)

    def url(self, key: str) -> str:
        return f"{'' if '/' in self.bucket else 's3://'}{self.bucket}/{key}"
