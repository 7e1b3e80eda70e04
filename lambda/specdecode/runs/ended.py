"""A note in the folder of a run on several nodes: it has ended, and its units must not begin (ADR 188).

The note is of one redrive. A run that is redriven has not ended, and what the last time noted stays true of its units.
"""

from __future__ import annotations

from specdecode import s3_keys
from specdecode.store import Store


def note_end(store: Store, run_id: str, redrives: int) -> None:
    """Note that the run has ended after so many redrives."""
    store.write(_key(run_id, redrives), "{}")


def has_ended(store: Store, run_id: str, redrives: int) -> bool:
    """Whether that was noted. S3 shows a note to whoever reads after it was written."""
    return store.read(_key(run_id, redrives)) is not None


def _key(run_id: str, redrives: int) -> str:
    return s3_keys.run_key(run_id, "ended", f"{redrives}.json")
