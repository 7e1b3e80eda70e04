"""Container logs to CloudWatch, as the Fluent Bit of amazon-cloudwatch-observability sends them."""

import asyncio
import json
import time
from collections import deque
from contextlib import suppress
from typing import Any

from rehearsal.kubernetes.admission import AUDIENCE
from rehearsal.kubernetes.node.account_tokens import TokenIssuer
from rehearsal.kubernetes.objects import Json, dig, name_of, namespace_of, uid_of
from rehearsal.kubernetes.software.installed import Installed

FLUSH_S = 1.0
"""Seconds between two sendings (5 in the add-on)."""
_ACCOUNT = ("amazon-cloudwatch", "cloudwatch-agent")
_MOST = 1000
"""Lines in one sending."""


class Shipper:
    """Sends the lines of all containers while the add-on is installed and its container logs are on."""

    def __init__(
        self, *, cluster_name: str, installed: Installed, tokens: TokenIssuer, aws_endpoint: str, region: str
    ) -> None:
        self._group = f"/aws/containerinsights/{cluster_name}/application"
        self._installed, self._tokens = installed, tokens
        self._endpoint, self._region = aws_endpoint, region
        self._lines: deque[tuple[str, Json]] = deque()
        self._streams: set[str] = set()
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None

    def take(self, pod: Json, container: str, restart: int, text: bytes) -> None:
        """A line that a container wrote just now."""
        if not (self._installed.logs_role and self._endpoint):
            return
        node = dig(pod, "spec", "nodeName", default="")
        file = f"{name_of(pod)}_{namespace_of(pod)}_{container}-{uid_of(pod).replace('-', '')}{restart:032x}"
        message = {
            "log": text.decode(errors="replace").rstrip("\n"),
            "stream": "stdout",
            "kubernetes": {
                "pod_name": name_of(pod),
                "namespace_name": namespace_of(pod),
                "pod_id": uid_of(pod),
                "host": node,
                "container_name": container,
            },
        }
        event = {"timestamp": int(time.time() * 1000), "message": json.dumps(message)}
        self._lines.append((f"{node}-application.var.log.containers.{file}.log", event))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_soon())

    async def _send_soon(self) -> None:
        while self._lines:
            await asyncio.sleep(FLUSH_S)
            batch = [self._lines.popleft() for _ in range(min(_MOST, len(self._lines)))]
            await asyncio.to_thread(self._send, batch)

    def _send(self, batch: list[tuple[str, Json]]) -> None:
        """What AWS does not take is lost. The next lines are sent with a new session."""
        from botocore.exceptions import BotoCoreError, ClientError  # as s3: not at the top

        try:
            for stream in dict.fromkeys(stream for stream, _ in batch):
                self._make(stream)
                events = [event for own, event in batch if own == stream]
                self._client.put_log_events(logGroupName=self._group, logStreamName=stream, logEvents=events)
        except (BotoCoreError, ClientError):
            self._client = None

    def _make(self, stream: str) -> None:
        """Make the stream, and the group, if they are missing (`auto_create_group`)."""
        if self._client is None:
            from rehearsal.kubernetes.node import s3

            namespace, account = _ACCOUNT
            token = self._tokens.issue(
                namespace=namespace, account=account, pod="fluent-bit", audience=AUDIENCE, seconds=3600
            )
            role = str(self._installed.logs_role)
            self._client = s3.client_of("logs", self._endpoint, self._region, role_arn=role, token=token)
        if stream in self._streams:
            return
        with suppress(self._client.exceptions.ResourceAlreadyExistsException):
            self._client.create_log_group(logGroupName=self._group)
        with suppress(self._client.exceptions.ResourceAlreadyExistsException):
            self._client.create_log_stream(logGroupName=self._group, logStreamName=stream)
        self._streams.add(stream)
