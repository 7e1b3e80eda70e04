"""Compare-and-swap of a document in S3: several writers change one object, and no change is lost.

S3 takes a write with If-Match only if the object is still the one that was read, and one with If-None-Match only if
there is none ("Conditional writes" in the user guide of Amazon S3).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from specdecode.store import ABSENT, error_code

ATTEMPTS = 20
"""Enough for 100 writers at once at S3's latencies (docs/reliability.md)."""
_LOST_RACE = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
Document = TypeVar("Document")


class Contended(Exception):
    """Other writers won every attempt; the caller may simply try again."""


def swap(
    load: Callable[[], tuple[Document, str | None]],
    write: Callable[[Document, Mapping[str, str]], None],
    change: Callable[[Document], Document],
    *,
    what: str,
    sleep: Callable[[float], None] = time.sleep,
) -> Document:
    """Apply the pure function `change` to the newest state and store the result; what now holds. What does not change
    is not written.

    `load`: the document with its ETag, None where there is no object. `write`: stores it under a condition, as
    arguments of put_object. Raises Contended, which names `what`, and what `load` and `write` raise.
    """
    for attempt in range(ATTEMPTS):
        before, etag = load()
        after = change(before)
        if after == before:
            return before
        try:
            write(after, {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag})
        except Exception as error:
            # Absent at a conditional write: the object was deleted between the read and the write.
            if error_code(error) not in _LOST_RACE | ABSENT:
                raise
            sleep(random.random() * 0.05 * 2.0 ** min(attempt, 6))
            continue
        return after
    raise Contended(f"{ATTEMPTS} attempts to change {what} lost the race")
