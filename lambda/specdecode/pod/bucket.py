"""The artifact bucket for the pod programs: files in and out, and COMPLETE.json, which is written last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from specdecode import aws, s3_keys
from specdecode.exit_codes import Exit
from specdecode.pod.program import PodError
from specdecode.untrusted import below, parse_json

WORKERS = 4
"""Files in flight at once. Each may use the memory of a part, and its own size on disk."""
_DENIED = ("403", "AccessDenied", "Forbidden", "InvalidAccessKeyId")
_MISSING = ("404", "NoSuchKey", "NoSuchBucket", "NotFound")


@dataclass(frozen=True)
class FileEntry:
    """One file of a finished folder, as COMPLETE.json lists it."""

    path: str
    size: int
    sha256: str


class Bucket:
    """One S3 bucket. Raises PodError for every error of S3."""

    def __init__(self, name: str, client: Any = None) -> None:
        self.name = name
        self._s3 = client or aws.client(
            "s3", config=Config(retries={"mode": "standard", "max_attempts": 10}, max_pool_connections=4 * WORKERS)
        )

    def listing(self, prefix: str) -> dict[str, tuple[int, str]]:
        """Path below `prefix` -> size and ETag."""
        with self._errors(f"list {prefix}"):
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
            items = [item for page in pages for item in page.get("Contents", ())]
        return {i["Key"].removeprefix(prefix): (i["Size"], i["ETag"].strip('"')) for i in items if i["Key"] != prefix}

    def metadata(self, key: str) -> dict[str, str]:
        """User metadata of an object; empty if there is no such object."""
        try:
            return dict(self._s3.head_object(Bucket=self.name, Key=key)["Metadata"])
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return {}
            raise self._translated(error, f"look at {key}") from error

    def download(self, key: str, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._errors(f"download {key}"):
                self._s3.download_file(self.name, key, str(path))
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise PodError(Exit.CORRUPT, f"{key} is a file where another key has a folder: {error}") from error

    def upload(self, path: Path, key: str, *, metadata: dict[str, str] | None = None) -> None:
        with self._errors(f"upload {key}"):
            self._s3.upload_file(str(path), self.name, key, ExtraArgs={"Metadata": metadata or {}})

    def complete(self, prefix: str) -> list[FileEntry] | None:
        """The files of the finished folder at `prefix`. None if it has no COMPLETE.json."""
        try:
            body = self._s3.get_object(Bucket=self.name, Key=prefix + s3_keys.COMPLETE)["Body"].read()
            return [
                FileEntry(path=below(str(entry["path"])), size=int(entry["size"]), sha256=str(entry["sha256"]))
                for entry in parse_json(body)["files"]
            ]
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return None
            raise self._translated(error, f"read {prefix}{s3_keys.COMPLETE}") from error
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise PodError(Exit.CORRUPT, f"{prefix}{s3_keys.COMPLETE} is not readable: {error}") from error

    def finish(self, prefix: str, files: Iterable[FileEntry], *, about: dict[str, Any]) -> None:
        """Check that every file exists with its size, then write COMPLETE.json. From then on the folder counts."""
        files = sorted(files, key=lambda entry: entry.path)
        there = self.listing(prefix)
        wrong = [entry.path for entry in files if there.get(entry.path, (-1, ""))[0] != entry.size]
        if wrong:
            raise PodError(Exit.CORRUPT, f"{prefix}: {len(wrong)} files differ from what was uploaded, e.g. {wrong[0]}")
        document = {"schema_version": 1, "files": [asdict(entry) for entry in files], **about}
        with self._errors(f"write {prefix}{s3_keys.COMPLETE}"):
            self._s3.put_object(
                Bucket=self.name,
                Key=prefix + s3_keys.COMPLETE,
                Body=json.dumps(document, indent=1).encode(),
                ContentType="application/json",
            )

    def fetch_folder(self, prefix: str, folder: Path, *, only: Sequence[str] | None = None) -> int:
        """Download a finished folder, verify every file, and return its bytes. Files that are there and right are kept.

        `only`: only these of its files, if it has them.
        """
        entries = self.complete(prefix)
        if entries is None:
            raise PodError(
                Exit.INCOMPLETE, f"s3://{self.name}/{prefix} has no {s3_keys.COMPLETE}: it was never finished"
            )
        entries = [entry for entry in entries if only is None or entry.path in only]

        def fetch(entry: FileEntry) -> None:
            path = folder / entry.path
            if not (path.is_file() and path.stat().st_size == entry.size):
                self.download(prefix + entry.path, path)
            if path.stat().st_size != entry.size or sha256_of(path) != entry.sha256:
                path.unlink()
                raise PodError(Exit.CORRUPT, f"{prefix}{entry.path} differs from its recorded SHA-256")

        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(fetch, entries))
        return sum(entry.size for entry in entries)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError, RuntimeError) as error:  # the last: a session that nobody renewed
            raise self._translated(error, doing) from error

    def _translated(self, error: Exception, doing: str) -> PodError:
        code = str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""
        if code == "ExpiredToken" or isinstance(error, RuntimeError):
            why = "the pod's session of AWS was not renewed; see the log of the step's function for why"
            return PodError(Exit.UNAVAILABLE, f"cannot {doing} in bucket {self.name}: {why} ({error})")
        exit_code = Exit.DENIED if code in _DENIED else Exit.NOT_FOUND if code in _MISSING else Exit.UNAVAILABLE
        return PodError(exit_code, f"cannot {doing} in bucket {self.name}: {error}")


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
