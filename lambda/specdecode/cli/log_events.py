"""What a run's pods wrote, from CloudWatch Logs; and what the diagnosis of a failed run kept of it.

The add-on amazon-cloudwatch-observability runs Fluent Bit on every node. It sends each line of a container as a JSON
event with `log` and `kubernetes` (pod_name, namespace_name, container_name; labels are off) into one log group of the
cluster, which it makes with the first line (`containerLogs` in values.yaml of aws-observability/helm-charts).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from specdecode import manifests, names, s3_keys
from specdecode.cli.output import complain
from specdecode.cli.runs_deployment import Deployment, Execution
from specdecode.cli.runs_view import TERMINAL
from specdecode.escape import clip, line
from specdecode.experiment.credentials import redacted
from specdecode.experiment.deployment_facts import DeploymentFacts
from specdecode.manifests.naming import object_name
from specdecode.manifests.pods import CONTAINER
from specdecode.planning import Plan
from specdecode.untrusted import Unreadable, parse_json

LATE_S = 60.0
"""A line may come so much after a younger one of another pod: looks overlap. Fluent Bit sends every 5 s (`Flush`)."""
SETTLED_S = 15.0
"""Seconds after a run's end until its last lines are there."""
LOOK_S = 5.0
"""Between two looks. An account may ask 5 times a second in all (CloudWatch Logs quotas, FilterLogEvents)."""
LONGEST = 4000
"""Most characters of a line that are shown."""
COMPONENTS = {"staging": "stage", "start-check": "check", "serving": "serve"}
"""Component label -> step, where they differ."""
NOT_PLANNED = ("stage", None)
"""Step and arm of pods that no plan names: they count what staging brought."""
NOT_GENERATED = 58
"""Most characters of a pod's name before its random end (apiserver, pkg/storage/names/generate.go)."""


class NoGroup(Exception):
    """The log group does not exist. The message says what to do."""


@dataclass(frozen=True)
class LogLine:
    """A line of a container, without what looks like a credential."""

    pod: str
    container: str
    text: str
    step: str
    arm: str | None
    at: datetime | None = None
    """When it was written. None of a log that was kept as a file."""

    def shown(self) -> str:
        """For a terminal: time, step, arm, container if the pod has several, text."""
        own = () if self.container == CONTAINER else (self.container,)
        who = " ".join((self.step, *((self.arm,) if self.arm else ()), *own))
        clock = f"{self.at.astimezone():%H:%M:%S} " if self.at else ""
        return line(f"{clock}{who:<14} {self.text.expandtabs(4)}")

    def document(self) -> dict[str, str | None]:
        """The line as `--json` prints it; its time in ISO 8601 with milliseconds."""
        return {**vars(self), "at": self.at.isoformat(timespec="milliseconds") if self.at else None}


@dataclass
class RunLogs:
    """The lines of one run. `begin` and `end`: seconds since 1970; `end` is None while the run goes on."""

    deployment: Deployment
    run_id: str
    group: str
    writers: dict[str, tuple[str, str | None]]
    """Beginning of a pod's name -> step and arm."""
    begin: float
    end: float | None
    sleep: Callable[[float], None] = time.sleep
    _seen: dict[str, int] = field(default_factory=dict)
    _read: bool = False
    """Whether the plan was read again since the last look."""

    def entries(self) -> Iterator[LogLine]:
        """What is there now, oldest first, and was not given before. Raises NoGroup."""
        begin, self._read = int(self.begin * 1000), False
        if self._seen:
            begin = max(begin, max(self._seen.values()) - int(LATE_S * 1000))
        self._seen = {key: at for key, at in self._seen.items() if at >= begin}
        pod = object_name(self.run_id)
        wanted = f'{{ $.kubernetes.namespace_name = "{names.NAMESPACE}" && $.kubernetes.pod_name = "{pod}-*" }}'
        until = {} if self.end is None else {"endTime": int(self.end * 1000)}
        pages = self.deployment.client("logs").get_paginator("filter_log_events")
        try:
            for page in pages.paginate(logGroupName=self.group, startTime=begin, filterPattern=wanted, **until):
                for event in page["events"]:
                    if event["eventId"] not in self._seen and (entry := self._entry(event, f"{pod}-")):
                        self._seen[event["eventId"]] = event["timestamp"]
                        yield entry
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            raise NoGroup(
                f"there is no log group {self.group}: no pod has written yet, or the cluster lacks the add-on "
                "amazon-cloudwatch-observability with container logs (`specdecode preflight` names missing add-ons)"
            ) from None

    def follow(self, show: Callable[[LogLine], object]) -> Execution:
        """Show every line until the run has ended and its last lines are there. Returns its end."""
        told = False
        while True:
            found = self.deployment.execution(self.run_id)
            if found.status in TERMINAL:
                self.sleep(SETTLED_S)
            try:
                for entry in self.entries():
                    show(entry)
            except NoGroup as missing:
                if not told:
                    complain(f"{missing}; looking again every {LOOK_S:.0f} s")
                told = True
            if found.status in TERMINAL:
                return found
            self.sleep(LOOK_S)

    def kept(self) -> Iterator[LogLine]:
        """The lines that steps and the diagnosis of the run kept in the bucket."""
        folder = s3_keys.run_key(self.run_id, "diagnostics", "logs") + "/"
        for key in self.deployment.store.keys(folder):
            pod, _, container = key[len(folder) :].removesuffix(".log").removesuffix(".previous").rpartition(".")
            for text in self.deployment.store.lines(key):
                yield self._made(pod, container, text.decode("utf-8", "replace"), None)

    def _entry(self, event: dict[str, Any], begins: str) -> LogLine | None:
        try:
            said = parse_json(event["message"])
            of, text = said["kubernetes"], said["log"]
            pod, container, namespace = of["pod_name"], of["container_name"], of["namespace_name"]
        except (Unreadable, KeyError, TypeError):
            return None
        if namespace != names.NAMESPACE or not str(pod).startswith(begins):
            return None
        return self._made(str(pod), str(container), str(text), datetime.fromtimestamp(event["timestamp"] / 1000, UTC))

    def _made(self, pod: str, container: str, text: str, at: datetime | None) -> LogLine:
        found = [begin for begin in self.writers if pod.startswith(begin)]
        if not found and not self._read:  # a followed run is planned later, and a sweep gets more waves
            self._read, plan = True, self.deployment.plan(self.run_id)
            self.writers = writers(plan, self.run_id) if plan else {}
            found = [begin for begin in self.writers if pod.startswith(begin)]
        step, arm = self.writers[max(found, key=len)] if found else NOT_PLANNED
        return LogLine(pod, container, redacted(clip(text.rstrip("\n"), LONGEST)), step, arm, at)


def of_run(deployment: Deployment, found: Execution, plan: Plan | None) -> RunLogs:
    """The lines of the run `found`."""
    facts = DeploymentFacts.model_validate_json(deployment.outputs["DeploymentFacts"])
    return RunLogs(
        deployment=deployment,
        run_id=found.run_id,
        group=f"/aws/containerinsights/{facts.cluster}/application",
        writers=writers(plan, found.run_id) if plan else {},
        begin=datetime.fromisoformat(found.started).timestamp(),
        end=datetime.fromisoformat(found.stopped).timestamp() + LATE_S if found.stopped else None,
    )


def writers(plan: Plan, run_id: str) -> dict[str, tuple[str, str | None]]:
    """Beginning of a pod's name -> step and arm, by the labels of the run's Jobs and Deployments."""
    names_only = manifests.RenderContext.without_bucket(run_id)
    made = [obj for obj in manifests.all_objects(plan, names_only) if obj["kind"] in ("Job", "Deployment")]
    labels = {obj["metadata"]["name"]: obj["metadata"]["labels"] for obj in made}
    for arm in (arm for wave in plan.waves for arm in wave.arms if arm.fallback):
        on_node = manifests.compile_name(arm.model_copy(update={"fingerprint": arm.fallback}), names_only)
        labels[on_node] = manifests.labels(names_only, "compile", variant=arm.variant)
    component = {name: own[names.COMPONENT_LABEL] for name, own in labels.items()}
    return {
        f"{name}-"[:NOT_GENERATED]: (COMPONENTS.get(component[name], component[name]), own.get(names.VARIANT_LABEL))
        for name, own in labels.items()
    }
