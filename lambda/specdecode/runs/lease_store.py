"""The lease document in S3, changed only by compare-and-swap: several writers change it, and no update is ever lost.

If-Match writes only over the object that was read, and If-None-Match only where there is none (user guide of Amazon S3,
"Conditional writes").
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from specdecode import s3_keys
from specdecode.runs.lease import ONE_SLOT, Lease, impossible
from specdecode.store import ABSENT, Store, error_code

LARGEST = 1 << 20
"""Most bytes of a document that are read. A hundred claims are 26 KiB (docs/reference/faults.md)."""
ATTEMPTS = 20
"""Enough for 100 writers at once at S3's latencies (docs/reference/faults.md)."""
_LOST_RACE = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}


class Contended(Exception):
    """Other writers won every attempt; the caller may simply try again."""


class LeaseDamaged(Exception):
    """The stored document is no lease, or cannot be true: no run can prove by it that it holds a node."""


class LeaseStore:
    """The document `key` in `bucket`, through the boto3 S3 client `s3`. `slots`: the NodePools that it gives out."""

    def __init__(
        self,
        *,
        s3: Any,
        bucket: str,
        key: str = s3_keys.CAPACITY_KEY,
        slots: Sequence[str] = ONE_SLOT,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = Store(s3=s3, bucket=bucket)
        self._key, self._url = key, self._store.url(key)
        self.slots = slots
        self._sleep = sleep
        self._now = now

    def read(self) -> Lease:
        """The lease now. Empty if there is no document. Raises LeaseDamaged, or boto3's errors."""
        return self._load()[0]

    def set_aside(self) -> str:
        """Copy the document for a person below s3_keys.DAMAGED; the copy's key. Twice is as once."""
        etag = self._etag()
        target = s3_keys.damaged_key(self._key, etag.strip('"'))
        self._store.copy(self._key, target, condition={"CopySourceIfMatch": etag})
        return target

    def begin_anew(self) -> None:
        """Put an empty queue in place of a damaged document. Only while no execution runs: who waited in it is lost."""
        etag = self._etag()
        try:
            self._load()
        except LeaseDamaged:
            self._write(Lease(), {"IfMatch": etag})

    def update(self, change: Callable[[Lease], Lease]) -> Lease:
        """Apply the pure function `change` to the newest state and store what changes. Returns the lease that now
        holds.

        Raises LeaseDamaged, Contended, or boto3's errors.
        """
        for attempt in range(ATTEMPTS):
            before, etag = self._load()
            after = change(before)
            if after == before:
                return before
            try:
                self._write(after, {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag})
            except Exception as error:
                # Absent at a conditional write: the object was deleted between the read and the write.
                if error_code(error) not in _LOST_RACE | ABSENT:
                    raise
                self._sleep(random.random() * 0.05 * 2.0 ** min(attempt, 6))
            else:
                return after
        raise Contended(f"{ATTEMPTS} attempts to change {self._url} lost the race")

    def _etag(self) -> str:
        return str(self._store.s3.head_object(Bucket=self._store.bucket, Key=self._key)["ETag"])

    def _load(self) -> tuple[Lease, str | None]:
        data, etag = self._store.read_tagged(self._key, at_most=LARGEST + 1)
        if data is None:
            return Lease(), None
        if len(data) > LARGEST:
            raise LeaseDamaged(f"{self._url} is larger than {LARGEST} bytes")
        try:
            lease = Lease.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the document"
            raise LeaseDamaged(f"{self._url} is no lease: {where}: {first['msg']}") from None
        if wrong := impossible(lease, slots=self.slots, now=self._now()):
            raise LeaseDamaged(f"{self._url} cannot be true: {wrong}")
        return lease, etag

    def _write(self, lease: Lease, condition: Mapping[str, str]) -> None:
        self._store.write(self._key, lease.model_dump_json(indent=1), condition=condition)
