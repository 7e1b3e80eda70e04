"""EC2 of the embedded AWS, asked with the role of Karpenter's service account: IAM decides what it may launch.

A call takes milliseconds to seconds, so each runs in a thread. The controllers look again when there is an answer.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rehearsal.kubernetes.objects import Json

logger = logging.getLogger(__name__)
POLL_S = 1.0
"""Seconds between two looks whether instances are still there (Karpenter's garbage collection looks every 10 to 120
s).
"""
KEYS_S = 900.0
IMAGE = "ami-00000000"


class LaunchRefused(Exception):
    """EC2 does not launch the instance. The message is EC2's."""


class Ec2:
    """`credentials` returns the role's ARN and a token of Karpenter's service account. `changed` is called when there
    is an answer, or when an instance has gone.
    """

    def __init__(
        self,
        *,
        endpoint: str,
        region: str,
        cluster_name: str,
        credentials: Callable[[], tuple[str, str]],
        changed: Callable[[], None],
    ) -> None:
        self._endpoint, self._region, self._cluster_name = endpoint, region, cluster_name
        self._credentials, self._changed = credentials, changed
        self._launches: dict[str, asyncio.Task[str]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._alive: set[str] = set()
        self._lock = threading.Lock()
        self._made: tuple[float, Any] = (0.0, None)
        self.gone: set[str] = set()
        """Ids of instances that someone other than Karpenter has ended."""

    def launch(self, key: str, *, instance_type: str, pool: str, node_class: str) -> str | None:
        """Id of the instance launched for `key`; None until EC2 answers. Raises LaunchRefused once for each try.

        The tags are those that Karpenter 1.14.1 sets (GetTags in pkg/utils/utils.go).
        """
        task = self._launches.get(key)
        if task is None:
            tags = {
                f"kubernetes.io/cluster/{self._cluster_name}": "owned",
                "karpenter.sh/nodepool": pool,
                "eks:eks-cluster-name": self._cluster_name,
                "karpenter.k8s.aws/ec2nodeclass": node_class,
            }
            task = asyncio.create_task(asyncio.to_thread(self._run, instance_type, tags))
            task.add_done_callback(lambda _: self._changed())
            self._launches[key] = task
        if not task.done():
            return None
        del self._launches[key]
        identity = task.result()
        if not self._alive:
            self._later(self._watch())
        self._alive.add(identity)
        return identity

    def give_up(self, key: str) -> bool:
        """End what was launched for `key` and nobody asked for any more. False until EC2 answers."""
        task = self._launches.get(key)
        if task is not None and not task.done():
            return False
        if task is not None:
            del self._launches[key]
            with suppress(LaunchRefused):
                self.terminate(task.result())
        return True

    def terminate(self, identity: str) -> None:
        """End an instance, soon."""
        self._alive.discard(identity)
        self._later(asyncio.to_thread(self._end, identity))

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _watch(self) -> None:
        while self._alive:
            await asyncio.sleep(POLL_S)
            asked = set(self._alive)  # one that is launched while EC2 answers is in no answer, and has not gone
            try:
                found = await asyncio.to_thread(self._running, sorted(asked))
            except Exception:
                logger.exception("EC2 cannot be asked")
                continue
            if missing := (asked - found) & self._alive:
                self._alive -= missing
                self.gone |= missing
                self._changed()

    # -- in threads

    def _run(self, instance_type: str, tags: dict[str, str]) -> str:
        from botocore.exceptions import BotoCoreError, ClientError

        specified = [{"Key": key, "Value": value} for key, value in tags.items()]
        try:
            answer = self._client().run_instances(
                ImageId=IMAGE,
                InstanceType=instance_type,
                MinCount=1,
                MaxCount=1,
                TagSpecifications=[{"ResourceType": "instance", "Tags": specified}],
            )
        except (ClientError, BotoCoreError) as problem:
            raise LaunchRefused(str(problem)) from None
        return str(answer["Instances"][0]["InstanceId"])

    def _end(self, identity: str) -> None:
        try:
            self._client().terminate_instances(InstanceIds=[identity])
        except Exception:
            logger.exception("%s cannot be ended", identity)

    def _running(self, identities: list[str]) -> set[str]:
        states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        answer: Json = self._client().describe_instances(Filters=states)
        found = {item["InstanceId"] for group in answer["Reservations"] for item in group["Instances"]}
        return found & set(identities)

    def _client(self) -> Any:
        """A client of a session. The session is renewed well before its keys expire."""
        with self._lock:
            made, client = self._made
            if client is None or time.monotonic() - made > KEYS_S:
                self._made = (time.monotonic(), self._assume())
            return self._made[1]

    def _assume(self) -> Any:
        import boto3  # not at the top: its import takes longer than all others
        from botocore import UNSIGNED
        from botocore.config import Config

        role, token = self._credentials()
        config = Config(proxies={}, connect_timeout=5, read_timeout=30, retries={"max_attempts": 2})
        here = {"endpoint_url": self._endpoint, "region_name": self._region}
        sts = boto3.client("sts", config=config.merge(Config(signature_version=UNSIGNED)), **here)
        keys = sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="karpenter", WebIdentityToken=token)
        given = keys["Credentials"]
        return boto3.client(
            "ec2",
            config=config,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
            **here,
        )
