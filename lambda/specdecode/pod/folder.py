"""A folder in place of the artifact bucket: the calls of boto3's S3 client that `specdecode.store` makes.

So a program of the pods works on one machine without AWS: `--bucket /data/store`. A file comes whole or not at all.
What `upload` notes of it lies in `.tags/`, which no listing shows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from specdecode.untrusted import below

TAGS, PARTIAL = ".tags", ".partial"


class FolderClient:
    """The objects below `root`: a key is a path."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get_object(self, *, Key: str, **_: Any) -> dict[str, Any]:
        return {"Body": BytesIO(self._there(Key, "GetObject").read_bytes())}

    def head_object(self, *, Key: str, **_: Any) -> dict[str, Any]:
        self._there(Key, "HeadObject")
        tags = self._tags(Key)
        return {"Metadata": json.loads(tags.read_bytes()) if tags.exists() else {}}

    def put_object(self, *, Key: str, Body: bytes, **_: Any) -> None:
        path = self._path(Key)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + PARTIAL)
        partial.write_bytes(Body)
        partial.replace(path)

    def download_file(self, bucket: str, key: str, path: str) -> None:
        """A copy: a program may change it, as one that rescales weights does."""
        shutil.copyfile(self._there(key, "GetObject"), path)

    def upload_file(self, path: str, bucket: str, key: str, ExtraArgs: Mapping[str, Any]) -> None:
        """The same file under another name where the disk allows it: weights are large, and not changed afterwards."""
        target = self._path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(target.name + PARTIAL)
        partial.unlink(missing_ok=True)
        try:
            os.link(path, partial)
        except OSError:
            shutil.copyfile(path, partial)
        partial.replace(target)
        self.put_object(Key=self._tags(key).relative_to(self._root).as_posix(), Body=_json(ExtraArgs["Metadata"]))

    def delete_objects(self, *, Delete: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        for each in Delete["Objects"]:
            self._path(each["Key"]).unlink(missing_ok=True)
        return {}

    def list_objects_v2(self, *, Prefix: str, **_: Any) -> dict[str, Any]:
        found = []
        start = self._root / Prefix.rpartition("/")[0]
        for path in sorted(start.rglob("*")) if start.is_dir() else ():
            key = path.relative_to(self._root).as_posix()
            if path.is_file() and key.startswith(Prefix) and path.suffix != PARTIAL and not key.startswith(TAGS):
                at = path.stat()
                etag = sha256(f"{at.st_size} {at.st_mtime_ns}".encode()).hexdigest()[:32]
                found.append({"Key": key, "Size": at.st_size, "ETag": etag})
        return {"Contents": found}

    def get_paginator(self, operation: str) -> FolderClient:
        return self

    def paginate(self, *, Prefix: str, **_: Any) -> Iterator[dict[str, Any]]:
        yield self.list_objects_v2(Prefix=Prefix)

    def _path(self, key: str) -> Path:
        return self._root / below(key)

    def _tags(self, key: str) -> Path:
        return self._root / TAGS / f"{sha256(key.encode()).hexdigest()}.json"

    def _there(self, key: str, operation: str) -> Path:
        path = self._path(key)
        if not path.is_file():
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": f"{path} does not exist"}}, operation)
        return path


def _json(tags: Mapping[str, str]) -> bytes:
    return json.dumps(dict(tags)).encode()
