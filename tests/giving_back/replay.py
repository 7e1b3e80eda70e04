"""The real functions, one call of a service at a time: a function that is under way is what it was and the answers that
it got.

To go on, the function begins again with these answers. So a moment of it can be kept, compared and gone on from twice.
Nothing in it may depend on anything else than its answers and its clock.
"""

import io
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import md5
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from specdecode import names
from specdecode.experiment import Capacity
from specdecode.kubernetes.client import Kubernetes, Response
from specdecode.runs.lease import LeaseStore
from specdecode.steps import acquire, release, watchdog
from specdecode.steps.runtime import Progress, Runtime, StepInput

from tests.backstop.aws import NOW
from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.world import MACHINE, World, arn

Ask = tuple[Any, ...]
"""A call of a service: its kind, and what it is given."""
LOST = "lost"
"""The answer that did not come, whether or not the call had its effect."""


class Program(NamedTuple):
    """A function that somebody has called, with its clock (minutes since NOW)."""

    name: str
    run: int
    minute: int


class End(NamedTuple):
    """How a function ended: what it found, or the name of its error."""

    done: bool
    error: str = ""


class Pause(BaseException):
    """The function asks what nobody has answered yet. No `except Exception` catches it."""


class Replay:
    """Runs functions of `runs` runs on `nodes` nodes. Remembers where each ends after which answers."""

    def __init__(self, *, runs: int, nodes: int) -> None:
        self.runs = [f"run-{number + 1}" for number in range(runs)]
        self._capacity = json.dumps({"nodes": nodes})
        self.nodes = names.held_pools(Capacity.model_validate_json(self._capacity).nodes)
        self.slots = tuple(slot for slot in self.nodes if names.kind_of(slot) == names.NODEPOOL)
        self._known: dict[tuple[Program, tuple[int, ...]], Ask | End] = {}
        self._numbers: dict[Any, int] = {}
        self._answers: list[Any] = []
        made = World(time=NOW)
        for run in self.runs:
            made.plan(run)
            made.finish("StageModels", run)
        self.stored = made.s3.objects
        """The bucket before a run asks for a node."""

    def numbered(self, answer: Any) -> int:
        """A number for an answer, which is quick to compare."""
        if answer not in self._numbers:
            self._numbers[answer] = len(self._answers)
            self._answers.append(answer)
        return self._numbers[answer]

    def next(self, program: Program, answers: tuple[int, ...]) -> Ask | End:
        """What the function asks after `answers`, or how it ended."""
        if (program, answers) not in self._known:
            self._known[program, answers] = self._run(program, answers)
        return self._known[program, answers]

    def _run(self, program: Program, answers: tuple[int, ...]) -> Ask | End:
        asked: list[Ask] = []
        left = iter(answers)

        def ask(*what: Any) -> Any:
            number = next(left, None)
            if number is None:
                asked.append(what)
                raise Pause
            return self._answers[number]

        runtime = self._runtime(ask, NOW + timedelta(minutes=program.minute))
        name = self.runs[program.run]
        given = StepInput(run_id=name, execution_arn=arn(name))
        try:
            if program.name == "watch":
                found = watchdog.watch(given, runtime)
                return End(True, "; ".join(found.problems))
            if program.name == "work":
                run = acquire.load_run(runtime.store, name)
                acquire.require_node(given, runtime, run)
                return End(True)
            step = {"acquire": acquire.acquire, "release": release.release}[program.name]
            answer: Progress = step(given, runtime)
            return End(answer.done)
        except Pause:
            return asked[0]
        except Exception as error:
            return End(False, type(error).__name__)

    def _runtime(self, ask: Any, now: datetime) -> Runtime:
        clients = {"s3": S3(ask), "stepfunctions": states(ask), "cloudwatch": metrics(ask)}
        environ = {
            "BUCKET": "bucket",
            "CAPACITY": self._capacity,
            "OPERATIONS_NAMESPACE": "N",
            "STATE_MACHINE_ARN": MACHINE,
        }

        def send(method: str, target: str, headers: Any, body: bytes | None) -> Response:
            path, _, query = target.partition("?")
            answer = ask("kube", method, path, body, *parse_qs(query).get("labelSelector", ()))
            return Response(403, b"{}") if answer == LOST else Response(*answer)

        runtime = Runtime(
            environ=environ,
            clients=clients.__getitem__,
            kubernetes=lambda: Kubernetes(send, token=lambda renew: "token", sleep=lambda s: None),
            now=lambda: now,
        )
        runtime.__dict__["lease"] = LeaseStore(
            s3=clients["s3"], bucket="bucket", slots=self.nodes, now=lambda: now, sleep=lambda s: None
        )
        return runtime


class S3:
    """Objects by what `ask` answers: bytes or None to a read, True or False (lost the race) to a write."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        body = self._answer("get", Key)
        if body is None:
            raise client_error("NoSuchKey", "GetObject", 404)
        return {"Body": io.BytesIO(body), "ETag": etag(body)}

    def put_object(self, *, Bucket: str, Key: str, Body: Any, ContentType: str = "", **condition: str) -> None:
        body = Body if isinstance(Body, bytes) else Body.encode()
        if not self._answer("put", Key, body, *condition.items()):
            raise client_error("PreconditionFailed", "PutObject", 412)

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        return {"ETag": etag(self._answer("get", Key))}

    def copy_object(self, **given: Any) -> None:
        """A copy for a person: it changes nothing here."""

    def _answer(self, *what: Any) -> Any:
        answer = self._ask(*what)
        if answer == LOST:
            raise client_error("AccessDenied", what[0], 403)
        return answer


def states(ask: Any) -> Any:
    """Step Functions by what `ask` answers: the runs that go on, or a status."""

    def describe(executionArn: str) -> dict[str, str]:
        return {"status": refused("describe", executionArn.rpartition(":")[2])}

    def refused(*what: str) -> Any:
        answer = ask(*what)
        if answer == LOST:
            raise client_error("ThrottlingException", what[0])
        return answer

    def pages(**_: str) -> Iterator[dict[str, Any]]:
        yield {"executions": [{"name": name} for name in refused("list")]}

    paginator = SimpleNamespace(paginate=pages)
    return SimpleNamespace(describe_execution=describe, get_paginator=lambda operation: paginator)


def metrics(ask: Any) -> Any:
    """CloudWatch: keeps what the backstop reads, as (name, slot, value)."""

    def put(*, Namespace: str, MetricData: list[dict[str, Any]]) -> None:
        found = [
            (item["MetricName"], (item.get("Dimensions") or [{"Value": ""}])[0]["Value"], item["Value"])
            for item in MetricData
        ]
        ask("metrics", tuple(item for item in found if item[0] == "WatchdogHeartbeat" or item[1]))

    return SimpleNamespace(put_metric_data=put)


def etag(body: bytes) -> str:
    """S3's ETag of an object: of its content alone."""
    return f'"{md5(body, usedforsecurity=False).hexdigest()}"'
