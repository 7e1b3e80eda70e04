"""Compiled artifacts between the store and a prefix of S3, so that another machine need not compile them again."""

from pathlib import Path

from specdecode import finished, s3_keys
from specdecode.benchmark.place import S3Folder


def bring(prefix: str, store: Path, origin: S3Folder) -> bool:
    """Copy a finished artifact into the store, COMPLETE.json last; False if it is not there. A server compares every
    byte before it loads one. Raises finished.Damaged, and botocore's errors.
    """
    there = origin.store
    text = there.read(f"{origin.prefix}{prefix}{s3_keys.COMPLETE}", at_most=finished.LARGEST)
    if text is None:
        return False
    for entry in finished.parse(prefix, text):
        path = store / prefix / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        there.download(f"{origin.prefix}{prefix}{entry.path}", path)
    (store / prefix / s3_keys.COMPLETE).write_bytes(text)
    return True


def send(prefix: str, store: Path, target: S3Folder) -> None:
    """Copy a finished artifact of the store to S3, COMPLETE.json last. Raises botocore's errors."""
    text = (store / prefix / s3_keys.COMPLETE).read_bytes()
    for entry in finished.parse(prefix, text):
        key = f"{target.prefix}{prefix}{entry.path}"
        target.store.upload(store / prefix / entry.path, key, tags={"sha256": entry.sha256})
    target.store.write(f"{target.prefix}{prefix}{s3_keys.COMPLETE}", text)
