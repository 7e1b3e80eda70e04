"""The artifact bucket for the pod programs: files in and out, and COMPLETE.json, which is written last.

A folder may stand in its place, so that a program of the pods works on one machine without AWS: `--bucket /data/store`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from specdecode import aws, finished, s3_keys
from specdecode.exit_codes import Exit
from specdecode.finished import FileEntry
from specdecode.pod.program import PodError
from specdecode.store import ABSENT, NotDeleted, Store, error_code
from specdecode.untrusted import Unreadable, below, parse_json

WORKERS = 4
"""Files in flight at once. Each may use the memory of a part, and its own size on disk."""
TAGS = ".tags"
LOST = "lost+found"
PARTIAL = "\\partial"
"""End of the name of a file that is not whole yet. No key has a backslash."""
_DENIED = ("403", "AccessDenied", "Forbidden", "InvalidAccessKeyId")


class Bucket:
    """One S3 bucket, or a folder of this machine. Raises PodError for every error of S3."""

    def __init__(self, name: str, client: Any = None) -> None:
        """`name`: of a bucket; with a slash in it, a folder's path."""
        self.name = name
        if client is None and "/" in name:
            client = FolderClient(Path(name))
        config = Config(retries={"mode": "standard", "max_attempts": 10}, max_pool_connections=4 * WORKERS)
        self._store = Store(s3=client or aws.client("s3", config=config), bucket=name)

    def url(self, key: str) -> str:
        return self._store.url(key)

    def listing(self, prefix: str) -> dict[str, tuple[int, str]]:
        """Path below `prefix` -> size and ETag."""
        with self._errors(f"list {prefix}"):
            return self._store.listing(prefix)

    def tags(self, key: str) -> dict[str, str]:
        """What `upload` noted of an object; empty if there is no such object."""
        with self._errors(f"look at {key}"):
            return self._store.tags(key) or {}

    def download(self, key: str, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._errors(f"download {key}"):
                self._store.download(key, path)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise PodError(Exit.CORRUPT, f"{key} is a file where another key has a folder: {error}") from error

    def start_of(self, key: str, size: int) -> bytes:
        """The first `size` bytes of an object; the rest is not asked for. Raises PodError if there is none."""
        with self._errors(f"read {key}"):
            found = self._store.read(key, at_most=size)
        if found is None:
            raise PodError(Exit.NOT_FOUND, f"there is no {key} in bucket {self.name}")
        return found

    def upload(self, path: Path, key: str, *, tags: Mapping[str, str] | None = None) -> None:
        with self._errors(f"upload {key}"):
            self._store.upload(path, key, tags=tags or {})

    def write(self, key: str, text: str) -> None:
        with self._errors(f"write {key}"):
            self._store.write(key, text)

    def delete(self, keys: Sequence[str]) -> None:
        with self._errors("delete"):
            self._store.delete(keys)

    def complete(self, prefix: str) -> list[FileEntry] | None:
        """The files of the finished folder at `prefix`. None if it has no COMPLETE.json."""
        key = prefix + s3_keys.COMPLETE
        with self._errors(f"read {key}"):
            body = self._store.read(key)
        if body is None:
            return None
        try:
            return finished.parse(prefix, body)
        except finished.Damaged as error:
            raise PodError(_damaged(prefix), str(error)) from error

    def finish(self, prefix: str, files: Iterable[FileEntry], *, about: dict[str, Any]) -> None:
        """Check every file's size, delete what else an upload left, and write COMPLETE.json: now the folder counts."""
        files = sorted(files, key=lambda entry: entry.path)
        there = self.listing(prefix)
        wrong = [entry.path for entry in files if there.get(entry.path, (-1, ""))[0] != entry.size]
        if wrong:
            raise PodError(Exit.CORRUPT, f"{prefix}: {len(wrong)} files differ from what was uploaded, e.g. {wrong[0]}")
        with self._errors(f"clear {prefix}"):
            self._store.delete([prefix + path for path in sorted(there.keys() - {entry.path for entry in files})])
        with self._errors(f"write {prefix}{s3_keys.COMPLETE}"):
            self._store.write(prefix + s3_keys.COMPLETE, finished.document(prefix, files, about=about))

    def fetch_folder(self, prefix: str, folder: Path, *, only: Sequence[str] | None = None) -> int:
        """Download a finished folder, verify every file, and return its bytes. Files that are there and right are kept.

        `only`: only these of its files, if it has them.
        """
        entries = self.complete(prefix)
        if entries is None:
            raise PodError(Exit.INCOMPLETE, f"{self.url(prefix)} has no {s3_keys.COMPLETE}: it was never finished")
        entries = [entry for entry in entries if only is None or entry.path in only]

        def fetch(entry: FileEntry) -> None:
            path = folder / entry.path
            if not (path.is_file() and path.stat().st_size == entry.size):
                self.download(prefix + entry.path, path)
            if path.stat().st_size != entry.size or sha256_of(path) != entry.sha256:
                path.unlink()
                raise PodError(_damaged(prefix), f"{prefix}{entry.path} differs from its recorded size or SHA-256")

        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(fetch, entries))
        return sum(entry.size for entry in entries)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:  # of a folder in place of the bucket
            raise PodError(Exit.DENIED, f"cannot {doing} in {self.name}: {error}") from error
        except (ClientError, BotoCoreError, NotDeleted, RuntimeError) as error:  # the last: a session not renewed
            code, why = error_code(error), str(error)
            if code == "ExpiredToken" or isinstance(error, RuntimeError):
                why = f"the pod's session of AWS was not renewed; see the log of the step's function for why ({error})"
            missing = code == "NoSuchBucket" or code in ABSENT
            exit_code = Exit.DENIED if code in _DENIED else Exit.NOT_FOUND if missing else Exit.UNAVAILABLE
            raise PodError(exit_code, f"cannot {doing} in bucket {self.name}: {why}") from error


def _damaged(prefix: str) -> Exit:
    return Exit.DAMAGED_ARTIFACT if prefix.startswith(s3_keys.compiled_prefix("")[:-1]) else Exit.DAMAGED_MODEL


def entry_of(name: str, path: Path) -> FileEntry:
    """The entry of the file at `path`, which is called `name` in its folder."""
    with path.open("rb") as file:
        return finished.entry(name, file)


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def everything(folder: Path) -> list[Path]:
    """What lies below `folder`, each folder before what is in it. It recurses nowhere, and follows no link. The
    `lost+found` of a disk is passed over. Raises OSError for what else may not be read: a part is not the whole.
    """
    found = list(folder.iterdir())
    for path in found:
        if path.is_dir() and not path.is_symlink() and path.name != LOST:
            with suppress(FileNotFoundError):  # somebody deleted it meanwhile
                found += list(path.iterdir())
    return found


def remove(path: Path) -> None:
    """Delete a folder with all that it holds, or a link or a file in its place, if it is there."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except (RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EMFILE:  # a folder for each open file
            raise
        for each in (*reversed(everything(path)), path):
            if each.is_symlink() or not each.is_dir():
                each.unlink()
            else:
                each.rmdir()


def link_in_place_of(folder: Path) -> str:
    """Why nothing is written or deleted in a finished folder that is a link. Empty if it is none."""
    leads = f"{folder} is a link to {folder.readlink()}" if folder.is_symlink() else ""
    return leads and f"{leads}, and not whole: nothing is changed there. Move it away; {folder.parent} may be a link"


def _partial(path: Path) -> Path:
    """Where a file is written until it is whole. Nothing is there."""
    partial = path.with_name(hashlib.sha256(path.name.encode()).hexdigest()[:16] + PARTIAL)
    remove(partial)
    return partial


class FolderClient:
    """The calls of boto3's S3 client that `specdecode.store` makes, on the files below `root`: a key is a path.

    A file comes whole or not at all. What `upload` notes of it lies in TAGS, which no listing shows.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def get_object(self, *, Key: str, **_: Any) -> dict[str, Any]:
        return {"Body": BytesIO(self._there(Key, "GetObject").read_bytes())}

    def head_object(self, *, Key: str, **_: Any) -> dict[str, Any]:
        self._there(Key, "HeadObject")
        try:
            tags = parse_json(self._tags(Key).read_bytes())
        except (OSError, Unreadable):  # none, or torn: the file is compared, or brought again
            tags = {}
        return {"Metadata": tags if isinstance(tags, dict) else {}}

    def put_object(self, *, Key: str, Body: bytes, **_: Any) -> None:
        path = self._room(Key)
        partial = _partial(path)
        partial.write_bytes(Body)
        partial.replace(path)

    def download_file(self, bucket: str, key: str, path: str) -> None:
        """A copy: a program may change it, as one that rescales weights does."""
        shutil.copyfile(self._there(key, "GetObject"), path)

    def upload_file(self, path: str, bucket: str, key: str, ExtraArgs: Mapping[str, Any]) -> None:
        """The same file under another name where the disk allows it: weights are large, and not changed afterwards."""
        target = self._room(key)
        partial = _partial(target)
        try:
            os.link(Path(path).resolve(), partial)  # a link's file: Linux would link the link
        except OSError:
            shutil.copyfile(path, partial)
        partial.replace(target)
        partial.unlink(missing_ok=True)  # two names of one file: rename(2) keeps both
        self.put_object(
            Key=self._tags(key).relative_to(self._root).as_posix(),
            Body=json.dumps(dict(ExtraArgs["Metadata"])).encode(),
        )

    def delete_objects(self, *, Delete: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        """A listing shows names that no key has, too: they are deleted, if they do not lead out of the folder."""
        for key in (each["Key"] for each in Delete["Objects"]):
            if {"", ".", ".."} & set(key.split("/")):
                raise Unreadable(f"{key[:100]!r} is no path below a folder")
            self._refuse_link(Path(key))
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                (self._root / key).unlink()
        return {}

    def list_objects_v2(self, *, Prefix: str, **_: Any) -> dict[str, Any]:
        found = []
        start = self._root / Prefix.rpartition("/")[0]
        for path in sorted(everything(start)) if start.is_dir() else ():
            key = path.relative_to(self._root).as_posix()
            is_folder = path.is_dir() and not path.is_symlink()
            if not is_folder and key.startswith(Prefix) and not key.startswith(TAGS):
                with suppress(FileNotFoundError):  # another process gives a whole file its name
                    at = path.stat() if path.is_file() else path.lstat()  # the latter is no file, and belongs nowhere
                    etag = hashlib.sha256(f"{at.st_size} {at.st_mtime_ns}".encode()).hexdigest()[:32]
                    found.append({"Key": key, "Size": at.st_size, "ETag": etag})
        return {"Contents": found}

    def get_paginator(self, operation: str) -> FolderClient:
        return self

    def paginate(self, *, Prefix: str, **_: Any) -> Iterator[dict[str, Any]]:
        yield self.list_objects_v2(Prefix=Prefix)

    def _path(self, key: str) -> Path:
        return self._root / below(key)

    def _room(self, key: str) -> Path:
        """The path of a file to write. What is in its way is deleted: a file or a link in place of a folder within
        `models/NAME/` or `compiled/NAME/`, or a folder in place of the file.
        """
        path = self._path(key)
        self._refuse_link(path.relative_to(self._root))
        for at in (self._root / parent for parent in reversed(path.relative_to(self._root).parents[:-2])):
            if at.is_symlink() or not at.is_dir():
                with suppress(IsADirectoryError):  # another thread was faster
                    at.unlink(missing_ok=True)
        if path.is_dir():
            remove(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _refuse_link(self, path: Path) -> None:
        """Raises PermissionError if NAME in `models/NAME/…` or `compiled/NAME/…` is a link."""
        if why := link_in_place_of(self._root.joinpath(*path.parts[:2])) if path.parts[2:] else "":
            raise PermissionError(why)

    def _tags(self, key: str) -> Path:
        return self._root / TAGS / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    def _there(self, key: str, operation: str) -> Path:
        path = self._path(key)
        if not path.is_file():
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": f"{path} is no file"}}, operation)
        return path
