"""Copies of artifacts in S3, from there to the store and back: `specdecode instance --artifacts`."""

from contextlib import suppress
from pathlib import Path

from specdecode import finished, s3_keys
from specdecode.benchmark.place import S3Folder
from specdecode.benchmark.results import replace_file
from specdecode.pod.bucket import sha256_of


def bring(prefix: str, store: Path, origin: S3Folder) -> bool:
    """Copy a finished artifact into the store, COMPLETE.json last; False if there is none.

    Every byte is compared with COMPLETE.json. Raises finished.Damaged, and leaves what it has copied till then.
    """
    there = origin.store
    seen = finished.stored(there, prefix, root=origin.prefix)
    if seen is None:
        return False
    text, files = seen
    for entry in files:
        path = store / prefix / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        there.download(f"{origin.prefix}{prefix}{entry.path}", path)
        if sha256_of(path) != entry.sha256:
            raise finished.Damaged(f"{prefix}{entry.path} differs from its SHA-256")
    replace_file(store / prefix / s3_keys.COMPLETE, text)
    return True


def send(prefix: str, store: Path, target: S3Folder) -> bool:
    """Copy a finished artifact of the store to S3, COMPLETE.json last; False if a whole one is there. That may be of
    another machine, and servers may compare its hash: it stays. Anything else makes room, and counts no more from the
    first byte on.

    Raises NotDeleted and botocore's errors.
    """
    there, at = target.store, target.prefix + prefix
    with suppress(finished.Damaged):
        if finished.stored(there, prefix, root=target.prefix):
            return False
    finished.set_aside(there, at)
    text = (store / prefix / s3_keys.COMPLETE).read_bytes()
    files = finished.parse(prefix, text)
    for entry in files:
        there.upload(store / prefix / entry.path, at + entry.path, tags={"sha256": entry.sha256})
    more = there.listing(at).keys() - {entry.path for entry in files} - {s3_keys.COMPLETE}
    there.delete([at + path for path in sorted(more)])
    there.write(at + s3_keys.COMPLETE, text)
    return True
