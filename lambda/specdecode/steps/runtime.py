"""What every step works with, made once from the Lambda's environment. Tests make their own."""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any

from botocore.config import Config
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from specdecode import aws, names, s3_keys
from specdecode.experiment import Capacity
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.connect import connect
from specdecode.kubernetes.node_group import pools_of
from specdecode.kubernetes.pools import NodePools, Pools
from specdecode.planning.events import INTERVALS_S
from specdecode.runs.lease import LeaseStore
from specdecode.steps import logs
from specdecode.steps.errors import LOOK_AGAIN, InvalidExperiment, StepFailed
from specdecode.store import Store
from specdecode.untrusted import placed

_RETRIES = Config(retries={"mode": "standard", "max_attempts": 4}, connect_timeout=3, read_timeout=8)
"""A service that does not answer costs a minute and the back-off at most: the node goes back even if S3 hangs."""


class StepInput(BaseModel):
    """What the state machine hands to every step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    execution_arn: str = ""
    execution_started: AwareDatetime | None = None
    """When the execution was started. Only the first step and the diagnosis get it."""
    wave: int = 0
    ahead: bool = False
    """Compile on CPU nodes before the node is taken. Only Compile gets it."""
    start_check: bool = False
    """Start engines with tiny models before anything is compiled on the node. Only Compile gets it."""
    input: JsonValue = None
    """The execution's input. Only the first step gets it."""
    error: dict[str, JsonValue] | None = None
    """Error and Cause that the state machine caught. Only the diagnosis gets it."""


class Progress(BaseModel):
    """What a step that waits has found. The state machine calls it again, soon or later, until it is `done`."""

    model_config = ConfigDict(frozen=True)

    done: bool
    message: str
    wait_s: int = Field(default=INTERVALS_S[0], ge=1, le=INTERVALS_S[-1], exclude=True)
    """One of INTERVALS_S. Bounded, whatever a stored plan says: nothing looks at the run meanwhile."""


@dataclass
class Runtime:
    """What a step works with. Clients of AWS and of the cluster are made at their first use."""

    environ: Mapping[str, str]
    clients: Callable[[str], Any]
    kubernetes: Callable[[], Kubernetes]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sessions: dict[str, datetime] = field(default_factory=dict)
    """Job -> when the session ends that this process gave to its pods."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Runtime:
        return cls(
            environ=environ,
            clients=cache(lambda service: aws.client(service, config=_RETRIES)),
            kubernetes=lambda: connect(environ),
        )

    @property
    def sees_nodes(self) -> bool:
        """Whether the pipeline scales and sees nodes. Else the nodes belong to somebody else and are simply there."""
        return self.environ.get(names.RIGHTS_VARIABLE) != names.NAMESPACE_RIGHTS

    @property
    def ends_nodes(self) -> bool:
        """Whether it may delete NodeClaims. In somebody else's Karpenter that right would cover everybody's."""
        return not self.is_guest

    @property
    def is_guest(self) -> bool:
        """Whether the cluster is somebody else's, without a NodePool of ours for pods that need no held node."""
        return names.RIGHTS_VARIABLE in self.environ

    @cached_property
    def kube(self) -> Kubernetes:
        return self.kubernetes()

    @cached_property
    def pools(self) -> Pools:
        return pools_of(self.kube, self.environ, self.clients)

    @property
    def node_pools(self) -> NodePools:
        """The NodePools of a Karpenter of ours."""
        return NodePools(self.kube)

    def brings_node(self, slot: str) -> bool:
        """Whether a run that holds the slot waits for a node that this pipeline launches."""
        return self.sees_nodes and self.pools.brings(slot)

    @cached_property
    def store(self) -> Store:
        return Store(s3=self.clients("s3"), bucket=self.environ["BUCKET"])

    @cached_property
    def lease(self) -> LeaseStore:
        slots = names.held_pools(Capacity.model_validate_json(self.environ["CAPACITY"]).nodes)
        return LeaseStore(s3=self.store.s3, bucket=self.store.bucket, slots=slots, now=self.now)

    @cached_property
    def queue(self) -> LeaseStore:
        """The queue for servers that already run, whichever they are."""
        return LeaseStore(s3=self.store.s3, bucket=self.store.bucket, key=s3_keys.ENDPOINTS_KEY, now=self.now)


@cache
def process_runtime() -> Runtime:
    """The runtime of this process: a warm function keeps its clients and its token."""
    return Runtime.from_environ(os.environ)


def run_step(step: Callable[[StepInput, Runtime], BaseModel], event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Run `step` for a Lambda event. Logs begin and end, turns the answer into JSON, lets its typed errors through.

    Raises LookAgain with the line of progress if the step is not done: an error that the state machine waits for and
    then calls again (ADR 55).
    """
    name = step.__name__.rpartition(".")[2]
    try:
        given = StepInput.model_validate_json(json.dumps(event, ensure_ascii=False).encode("utf-8", "replace"))
    except ValidationError as error:
        wrong = "; ".join(map(placed, error.errors()[:10]))
        raise InvalidExperiment(f"not the input of a step: {wrong}") from None
    logs.configure(step=name, run_id=given.run_id, request_id=getattr(context, "aws_request_id", ""))
    logs.info("begin", wave=given.wave)
    try:
        answer = step(given, process_runtime())
    except StepFailed as error:
        logs.info("failed", error=type(error).__name__, reason=str(error))
        raise
    except Exception:
        logs.LOGGER.exception("broke")
        raise
    result: dict[str, Any] = answer.model_dump(mode="json")
    logs.info("end", result=result)
    if isinstance(answer, Progress) and not answer.done:
        raise LOOK_AGAIN[bisect_left(INTERVALS_S, answer.wait_s)](answer.message)
    return result
