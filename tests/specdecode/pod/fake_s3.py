"""S3 in memory: the calls that the pod programs make, with boto3's own answers and errors."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

from botocore.exceptions import ClientError


class FakeS3:
    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        self.metadata: dict[str, dict[str, str]] = {}
        self.uploads: list[str] = []
        self.denied = False

    def _need(self, key: str, operation: str, missing: str = "404") -> bytes:
        if self.denied:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)
        if key not in self.objects:
            raise ClientError({"Error": {"Code": missing, "Message": "missing"}}, operation)
        return self.objects[key]

    def get_paginator(self, name: str) -> FakeS3:
        assert name == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> list[dict]:
        found = [(k, v) for k, v in sorted(self.objects.items()) if k.startswith(Prefix)]
        items = [{"Key": k, "Size": len(v), "ETag": f'"{hashlib.md5(v).hexdigest()}"'} for k, v in found]
        return [{"Contents": items[:1]}, {"Contents": items[1:]}] if items else [{}]

    def list_objects_v2(self, *, Bucket: str, Prefix: str, MaxKeys: int) -> dict:
        return {
            "Contents": [
                item for page in self.paginate(Bucket=Bucket, Prefix=Prefix) for item in page.get("Contents", ())
            ][:MaxKeys]
        }

    def head_object(self, *, Bucket: str, Key: str) -> dict:
        self._need(Key, "HeadObject")
        return {"Metadata": self.metadata.get(Key, {})}

    def get_object(self, *, Bucket: str, Key: str) -> dict:
        return {"Body": io.BytesIO(self._need(Key, "GetObject", "NoSuchKey"))}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, ContentType: str) -> None:
        self.uploads.append(Key)
        self.objects[Key] = Body

    def download_file(self, bucket: str, key: str, path: str) -> None:
        Path(path).write_bytes(self._need(key, "GetObject"))

    def upload_file(self, path: str, bucket: str, key: str, ExtraArgs: dict) -> None:
        self.uploads.append(key)
        self.objects[key] = Path(path).read_bytes()
        self.metadata[key] = ExtraArgs["Metadata"]

    def delete_objects(self, *, Bucket: str, Delete: dict) -> dict:
        for item in Delete["Objects"]:
            self.objects.pop(item["Key"], None)
        return {}
