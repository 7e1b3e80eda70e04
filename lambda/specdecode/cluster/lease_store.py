"""The lease document in S3, changed only by compare-and-swap: no update is ever lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from specdecode import layout
from specdecode.cluster.lease import Lease

ATTEMPTS = 20
"""Enough for 100 writers at once at S3's latencies (docs/reliability.md)."""
_LOST_RACE = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_ABSENT = {"NoSuchKey", "404"}


class LeaseContended(Exception):
    """Other writers won every attempt; the caller may simply try again."""


class LeaseStore:
    """Reads and changes the document `key` in `bucket` with the boto3 S3 client `s3`."""

    def __init__(
        self,
        *,
        s3: Any,
        bucket: str,
        key: str = layout.CAPACITY_KEY,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._key = key
        self._sleep = sleep

    def read(self) -> Lease:
        return self._load()[0]

    def update(self, change: Callable[[Lease], Lease]) -> Lease:
        """Apply the pure function `change` to the newest state and store the result; returns what now holds."""
        for attempt in range(ATTEMPTS):
            before, etag = self._load()
            after = change(before)
            if after == before:
                return before
            condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
            try:
                self._s3.put_object(
                    Bucket=self._bucket,
                    Key=self._key,
                    Body=after.model_dump_json(indent=1).encode(),
                    ContentType="application/json",
                    **condition,
                )
            except ClientError as error:
                # 404 on a conditional write: the object was deleted between the read and the write.
                if error.response["Error"]["Code"] not in _LOST_RACE | _ABSENT:
                    raise
                self._sleep(random.random() * 0.05 * 2.0 ** min(attempt, 6))
                continue
            return after
        raise LeaseContended(f"{ATTEMPTS} attempts to change s3://{self._bucket}/{self._key} lost the race")

    def _load(self) -> tuple[Lease, str | None]:
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=self._key)
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return Lease(), None
            raise
        return Lease.model_validate_json(answer["Body"].read()), answer["ETag"]
