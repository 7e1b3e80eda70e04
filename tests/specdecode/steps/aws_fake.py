"""S3, Step Functions and CloudWatch in memory, as far as steps, pods and commands use them."""

import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from hashlib import md5
from pathlib import Path
from typing import Any, BinaryIO

from botocore.exceptions import ClientError


def client_error(code: str, operation: str = "Operation", http: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": http}}, operation
    )


def denied(operation: str, key: str) -> None:
    """`FakeS3.before` of who may do nothing."""
    raise client_error("AccessDenied", operation, 403)


class FakeS3:
    """Objects with ETags and conditional writes. `before` is called with operation and key, and may raise."""

    class exceptions:
        ClientError = ClientError

        class NoSuchBucket(ClientError): ...

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        self.metadata: dict[str, dict[str, str]] = {}
        self.uploads: list[str] = []
        self.before: Callable[[str, str], None] = lambda operation, key: None

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        self.before("GetObject", Key)
        if Key not in self.objects:
            raise client_error("NoSuchKey", "GetObject", 404)
        return {"Body": io.BytesIO(self.objects[Key]), "ETag": _etag(self.objects[Key])}

    def put_object(
        self,
        *,
        Bucket: str,
        Key: str,
        Body: bytes | BinaryIO,
        ContentType: str = "",
        IfMatch: str | None = None,
        IfNoneMatch: str | None = None,
    ) -> None:
        self.before("PutObject", Key)
        held = self.objects.get(Key)
        if (IfNoneMatch == "*" and held is not None) or (IfMatch and (held is None or _etag(held) != IfMatch)):
            raise client_error("PreconditionFailed", "PutObject", 412)
        self.uploads.append(Key)
        self.objects[Key] = Body if isinstance(Body, bytes) else Body.read()

    def download_file(self, bucket: str, key: str, path: str) -> None:
        Path(path).write_bytes(self.get_object(Bucket=bucket, Key=key)["Body"].read())

    def upload_file(self, path: str, bucket: str, key: str, ExtraArgs: dict[str, Any]) -> None:
        self.put_object(Bucket=bucket, Key=key, Body=Path(path).read_bytes())
        self.metadata[key] = ExtraArgs["Metadata"]

    def delete_objects(self, *, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:
        for item in Delete["Objects"]:
            self.before("DeleteObject", item["Key"])
            self.objects.pop(item["Key"], None)
        return {}

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        self.before("HeadObject", Key)
        if Key not in self.objects:
            raise client_error("404", "HeadObject", 404)
        about = {"Metadata": self.metadata.get(Key, {}), "ContentLength": len(self.objects[Key])}
        return {"ETag": _etag(self.objects[Key]), **about}

    def copy_object(
        self, *, Bucket: str, Key: str, CopySource: dict[str, str], CopySourceIfMatch: str | None = None
    ) -> None:
        self.before("GetObject", CopySource["Key"])
        self.before("PutObject", Key)
        if CopySourceIfMatch and _etag(self.objects[CopySource["Key"]]) != CopySourceIfMatch:
            raise client_error("PreconditionFailed", "CopyObject", 412)
        self.objects[Key] = self.objects[CopySource["Key"]]

    def list_objects_v2(self, *, Bucket: str, Prefix: str = "", MaxKeys: int = 1000, **more: Any) -> dict[str, Any]:
        self.before("ListObjectsV2", Prefix)
        if delimiter := more.get("Delimiter"):
            rests = {key.removeprefix(Prefix) for key in self.objects if key.startswith(Prefix)}
            folders = sorted({rest.partition(delimiter)[0] + delimiter for rest in rests if delimiter in rest})
            return {"CommonPrefixes": [{"Prefix": Prefix + folder} for folder in folders]}
        found = [
            {"Key": key, "Size": len(body), "ETag": _etag(body)}
            for key, body in sorted(self.objects.items())
            if key.startswith(Prefix)
        ]
        return {"Contents": found[:MaxKeys], "KeyCount": len(found[:MaxKeys])}

    def get_paginator(self, operation: str) -> Any:
        class Pages:
            @staticmethod
            def paginate(**given: Any) -> Iterator[dict[str, Any]]:
                """The first object has a page of its own."""
                whole = self.list_objects_v2(**given)
                yield whole | {"Contents": whole.get("Contents", [])[:1]}
                yield {"Contents": whole.get("Contents", [])[1:]}

        return Pages


class FakeStates:
    """Executions by ARN with their status, and how those ended that failed."""

    def __init__(self) -> None:
        self.executions: dict[str, str] = {}
        self.ends: dict[str, dict[str, str]] = {}
        self.started: list[dict[str, str]] = []
        self.redrives: dict[str, int] = {}
        self.before: Callable[[str, str], None] = lambda operation, name: None

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, str]:
        """Idempotent while one of that name and input runs, as Step Functions is."""
        self.before("StartExecution", name)
        given = {"stateMachineArn": stateMachineArn, "name": name, "input": input}
        arn = f"{stateMachineArn.replace('stateMachine', 'execution')}:{name}"
        if arn in self.executions and (self.executions[arn] != "RUNNING" or given not in self.started):
            raise client_error("ExecutionAlreadyExists")
        if arn not in self.executions:
            self.executions[arn] = "RUNNING"
            self.started.append(given)
        return {"executionArn": arn}

    def stop_execution(self, *, executionArn: str, error: str, cause: str) -> None:
        self.before("StopExecution", executionArn.rpartition(":")[2])
        if executionArn not in self.executions:
            raise client_error("ExecutionDoesNotExist")
        self.executions[executionArn] = "ABORTED"
        self.ends[executionArn] = {"error": error, "cause": cause}

    def redrive(self, executionArn: str) -> None:
        """An execution that has ended goes on."""
        self.executions[executionArn] = "RUNNING"
        self.redrives[executionArn] = self.redrives.get(executionArn, 0) + 1

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:
        if executionArn not in self.executions:
            raise client_error("ExecutionDoesNotExist")
        ended = self.ends.get(executionArn, {})
        count = self.redrives.get(executionArn, 0)
        return {"status": self.executions[executionArn], "redriveCount": count, **ended}

    def get_paginator(self, operation: str) -> Any:
        class Pages:
            @staticmethod
            def paginate(*, stateMachineArn: str, statusFilter: str) -> Iterator[dict[str, Any]]:
                if ":stateMachine:" not in stateMachineArn:
                    raise client_error("InvalidArn")
                yield {
                    "executions": [
                        {"name": arn.rpartition(":")[2], "executionArn": arn}
                        for arn, status in self.executions.items()
                        if status == statusFilter
                    ]
                }

        return Pages


class FakeCloudWatch:
    """Keeps what was put; `throttled` calls fail first."""

    def __init__(self) -> None:
        self.data: list[dict[str, Any]] = []
        self.throttled = 0

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:
        if self.throttled:
            self.throttled -= 1
            raise client_error("Throttling", "PutMetricData")
        self.data += [{"Namespace": Namespace, **item} for item in MetricData]


class FakeSts:
    """Sessions of roles, as strict as STS where a session's request is concerned. `before` may raise."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.asked: list[dict[str, Any]] = []
        self.before: Callable[[], None] = lambda: None

    def assume_role(
        self, *, RoleArn: str, RoleSessionName: str, Policy: str, DurationSeconds: int
    ) -> dict[str, dict[str, Any]]:
        self.before()
        assert re.fullmatch(r"arn:aws:iam::[0-9]{12}:role/[\w+=,.@/-]+", RoleArn)
        assert re.fullmatch(r"[\w+=,.@-]{2,64}", RoleSessionName)
        assert len(Policy) <= 2048 and Policy.isascii() and json.loads(Policy)["Version"] == "2012-10-17"
        assert 900 <= DurationSeconds <= 3600, "a role that takes another gets an hour at most"
        self.asked.append({"name": RoleSessionName, "policy": json.loads(Policy), "role": RoleArn})
        keys = {"AccessKeyId": f"ASIA{len(self.asked):016}", "SecretAccessKey": "s" * 40, "SessionToken": "t" * 300}
        return {"Credentials": {**keys, "Expiration": self.now() + timedelta(seconds=DurationSeconds)}}


def _etag(body: bytes) -> str:
    return f'"{md5(body, usedforsecurity=False).hexdigest()}"'
