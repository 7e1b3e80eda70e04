"""A rehearsal: start the embedded cloud, deploy the stacks, import the models, run, remove everything."""

import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from specdecode import names
from specdecode.cli.runs_view import new_run_id
from specdecode.custom_resources.waiting import SOON_S
from specdecode.experiment import Experiment

from rehearsal import execution, imports, results, servers, tools
from rehearsal.cloud.kubernetes import Kubernetes
from rehearsal.console import Progress, RunningStep
from rehearsal.deployment import TIMEOUT_S, Deployment, progress, synth
from rehearsal.processes import Child, ChildFailed, Processes, clear_abandoned, wait_until_gone
from rehearsal.servers import Services

SETTLE_S = 0.5
"""Seconds after which a server that refuses connections must have ended."""
SILENCE_S = SOON_S + 300
"""Longest time in seconds without a new line of a deployment. The slowest resource is the guard that waits SOON_S for
Karpenter and then refuses. The others take seconds here, minutes on a busy machine.
"""
START_TIMEOUT_S = 600.0
NODE_DELAY_S = 0.5
"""Seconds from scaling up the NodePool until the node appears (minutes in AWS)."""


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """A running embedded cloud. `rehearsal()` makes one and ends it."""

    processes: Processes
    services: Services
    progress: Progress
    synthesis: Child
    """`cdk synth`, which began before the servers."""

    @cached_property
    def deployment(self) -> Deployment:
        return Deployment(processes=self.processes, services=self.services)

    @cached_property
    def kubernetes(self) -> Kubernetes:
        """The cluster's API, as its administrator."""
        given = self.services
        return Kubernetes(url=given.kubernetes_url, ca_file=given.kubernetes_ca, token=given.kubernetes_token)

    @cached_property
    def bucket(self) -> str:
        return self.deployment.outputs()["BucketName"]

    def prepare(self) -> None:
        """Bootstrap while the app is still being synthesized. Raises ChildFailed."""
        with self.progress.step("Synthesize, bootstrap"):
            for child in (self.deployment.bootstrap(), self.synthesis):
                child.wait(timeout_s=TIMEOUT_S)

    def deploy(self) -> None:
        """Deploy both stacks. Raises ChildFailed."""
        self.prepare()
        with self.progress.step("Deploy both stacks") as step:
            self._await(self.deployment.deploy(), step)
        self._subscribe()

    def _subscribe(self) -> None:
        """Subscribe a queue to the alerts, since `specdecode run` demands a subscriber. A queue needs no mail to
        confirm it.
        """
        sqs = self.services.client("sqs")
        url = sqs.create_queue(QueueName="told-of-alerts")["QueueUrl"]
        queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        topic = self.deployment.outputs()["AlertsTopicArn"]
        self.services.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)

    def import_models(self, experiment: Experiment) -> None:
        """Upload the experiment's models. `imports.check` has found them here."""
        with self.progress.step("Upload the models") as step:
            size = imports.upload(experiment, s3=self.services.client("s3"), bucket=self.bucket)
            step.say(f"{size / 1e6:.0f} MB")

    def start(self, name: str, request: Mapping[str, Any]) -> execution.Run:
        """Start a run of the experiment called `name`."""
        run_id = new_run_id(name, now=datetime.now(UTC), token=secrets.token_hex(2))
        return execution.start(self.services, request, run_id=run_id)

    def run(self, preset: str, *settings: str) -> execution.Run:
        """Start a run as a script of a user does: `specdecode run PRESET --yes --json`. Raises ChildFailed."""
        changes = [word for each in settings for word in ("--set", each)]
        program = Path(sys.executable).with_name("specdecode")
        try:
            ended = subprocess.run(
                [program, "run", preset, *changes, "--yes", "--json", "--region", tools.REGION],
                env=tools.environment(tools.aws_environment(self.services.endpoint)),
                capture_output=True,
                text=True,
                timeout=START_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ChildFailed(f"specdecode run {preset} --yes did not end within {START_TIMEOUT_S:.0f} s") from None
        if ended.returncode:
            raise ChildFailed(f"specdecode run {preset} --yes failed with status {ended.returncode}:\n{ended.stderr}")
        return execution.of(self.services, json.loads(ended.stdout))

    def download(self, run_id: str, *, to: Path) -> Path:
        return results.download(run_id, s3=self.services.client("s3"), bucket=self.bucket, to=to)

    def replicas(self) -> int:
        """Size of the NodePools together: 0 whenever no run holds a node."""
        pools = self.kubernetes.request("GET", "/apis/karpenter.sh/v1/nodepools")["items"]
        return sum(int(pool["spec"]["replicas"]) for pool in pools if names.is_held(pool["metadata"]["name"]))

    def claims(self) -> list[str]:
        """NodeClaims of the NodePools for runs. Each is an instance that AWS would bill."""
        selector = f"labelSelector=karpenter.sh/nodepool%20in%20({','.join(names.held_pools(names.MOST_NODES))})"
        claims = self.kubernetes.request("GET", f"/apis/karpenter.sh/v1/nodeclaims?{selector}")
        return [item["metadata"]["name"] for item in claims["items"]]

    def destroy(self) -> None:
        """Delete both stacks, as a user would. Raises ChildFailed."""
        with self.progress.step("Destroy both stacks") as step:
            replicas = self.replicas()
            self._await(self.deployment.destroy(), step)
            step.say(f"NodePools were at {replicas} replicas")

    def left(self) -> list[int]:
        """Call it after the end: ids of the processes that are still there a moment later. There should be none."""
        return wait_until_gone(self.processes.folder, timeout_s=60)

    def forget(self) -> None:
        """Call it after the end: remove the logs and the synthesized app."""
        shutil.rmtree(self.processes.folder, ignore_errors=True)

    def _await(self, child: Child, step: RunningStep) -> None:
        """Wait for the end of a deployment. Raises ChildFailed if a server ends, or if the deployment stands still."""
        began = time.monotonic()
        while child.running:
            self.services.check()
            step.say(progress(child.log))
            if child.silent_s() > SILENCE_S:
                raise child.failure(f"has said nothing for {SILENCE_S:.0f} s")
            if time.monotonic() - began > TIMEOUT_S:
                raise child.failure(f"did not finish within {TIMEOUT_S:.0f} s")
            time.sleep(0.2)
        child.wait(timeout_s=1)


@contextmanager
def rehearsal(progress: Progress, settings: Mapping[str, str] | None = None) -> Iterator[Rehearsal]:
    """Start the embedded cloud, and synthesize the app with `settings` meanwhile. When the block is left, all its
    processes are ended. Its logs stay.
    """
    folder = _work_folder()
    try:
        with Processes(folder=folder, root=tools.ROOT) as processes:
            synthesis = synth(processes, settings or {})
            with progress.step("Start the embedded cloud") as step:
                running = servers.start(processes, node_delay_s=NODE_DELAY_S)
                step.say(f"AWS {running.endpoint}, Kubernetes {running.kubernetes_url}")
            try:
                yield Rehearsal(processes=processes, services=running, progress=progress, synthesis=synthesis)
            except (BotoCoreError, ClientError, OSError):
                # If a call failed because its server has just ended, report the server's failure.
                time.sleep(SETTLE_S)
                running.check()
                raise
    finally:
        for part in set(folder.iterdir()) - {folder / "logs"}:
            shutil.rmtree(part, ignore_errors=True)


def _work_folder() -> Path:
    """Path of a new folder below .rehearsal/runs. Folders of ended rehearsals are removed, and their processes
    ended.
    """
    tools.RUNS.mkdir(parents=True, exist_ok=True)
    clear_abandoned(folder for folder in tools.RUNS.iterdir() if folder.is_dir())
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    return tools.RUNS / name
