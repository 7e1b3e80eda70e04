"""Faults that a draw may have: when, for how long, what they do, and which causes they may be the reason of."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import botocore.exceptions
import urllib3
from specdecode import s3_keys
from specdecode.exit_codes import Exit

from tests.chaos.clock import Clock
from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.cluster_fake import status

NODE = frozenset({"node-lost", "node-hung", "no-node", "lease-lost"})
"""Causes of a node that went away, or never came."""
PODS = frozenset({"arm-died", "crash-loop", "job-failed", "start-check-failed"})
STEP = frozenset({"too-slow", "timeout"})
"""A function or a Job that had no time left."""


class Kind(NamedTuple):
    """`lasts_s`: from which lengths is drawn; 0 for a moment. `causes`: rows of the table of causes that are true then.
    Empty: a run goes on to its end.
    """

    lasts_s: tuple[int, ...] = (0,)
    causes: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ("",)


OUTAGE = (15, 60, 600, 2400)
SHARE_LOST = dict(zip(OUTAGE, (0.5, 0.5, 0.05, 0.05), strict=True))
"""Of the answers of a service that loses some. Few in a long time: runs go on, and any one read fails among others."""
HALF_A_DAY = 40_000
"""Until somebody comes to mend it. The backstop alone ends nodes then."""
KINDS: dict[str, Kind] = {
    "S3 refuses": Kind(OUTAGE, frozenset({"s3-denied", "s3-away", "job-failed"}) | STEP, ("AccessDenied", "SlowDown")),
    "S3 is slow": Kind(OUTAGE, frozenset({"s3-away"}) | STEP),
    "S3 loses answers": Kind(OUTAGE, frozenset({"s3-away"}) | STEP),
    "Kubernetes refuses": Kind((*OUTAGE, HALF_A_DAY), frozenset({"cluster-away"}) | STEP, ("503", "429", "connection")),
    "Kubernetes is slow": Kind(OUTAGE, frozenset({"cluster-away"}) | STEP),
    "Kubernetes loses answers": Kind(OUTAGE, frozenset({"cluster-away"}) | STEP),
    "Step Functions refuses": Kind(OUTAGE),
    "lambda throttles": Kind(OUTAGE, frozenset({"functions-throttled"}) | STEP),
    "CloudWatch throttles": Kind(OUTAGE),
    "the clock steps": Kind(
        (60, 600), NODE | STEP | {"stored-damaged", "start-check-failed"}, ("-120", "-5", "5", "120")
    ),
    "the watchdog is dead": Kind((600, 2400, HALF_A_DAY)),
    "the watchdog is killed": Kind(),
    "an end is not told": Kind((2400,)),
    "Karpenter stands still": Kind((600, 2400, HALF_A_DAY), NODE),
    "no capacity": Kind((600, 2400), NODE),
    "a function is killed": Kind(),
    "a function is called twice": Kind(),
    "pods are killed": Kind(
        (0,), PODS, ("staging", "compile", "serving", "smoke", "benchmark", "accuracy", "start-check")
    ),
    "the disk is full": Kind(OUTAGE, frozenset({"disk-full", "job-failed"}), ("staging", "compile")),
    "the node is gone": Kind((0,), NODE),
    "the node hangs": Kind((0,), NODE),
    "a person stops a run": Kind(),
    # A flipped byte is found by the hash alone, so it is drawn as often as all others together.
    "bytes change": Kind(
        (0,), frozenset({"damaged", "artifact-incomplete"}), ("cut", "extra", "missing", "swap", *["flip"] * 4)
    ),
    "the lease is damaged": Kind((0,), frozenset({"stored-damaged", "lease-lost"})),
    "a run's record is damaged": Kind((0,), frozenset({"stored-damaged"})),
}


class Fault(NamedTuple):
    """`at_s`: seconds after the draw's beginning."""

    kind: str
    at_s: int
    lasts_s: int = 0
    part: str = ""

    def __str__(self) -> str:
        part, lasts = f" ({self.part})" if self.part else "", f" for {self.lasts_s} s" if self.lasts_s else ""
        return f"{self.kind}{part} after {self.at_s} s{lasts}"


def drawn(rng: random.Random, *, until_s: int) -> Fault:
    name = rng.choice(list(KINDS))
    kind = KINDS[name]
    return Fault(name, rng.randrange(until_s), rng.choice(kind.lasts_s), rng.choice(kind.parts))


class Faults:
    """The faults of one draw, as the services and the cluster meet them."""

    def __init__(self, faults: tuple[Fault, ...], clock: Clock) -> None:
        self.all, self._clock, self._began = faults, clock, clock.now
        self._spent: set[Fault] = set()

    def minutes(self, low: float, high: float) -> float:
        return random.uniform(low, high)

    def active(self, kind: str) -> Fault | None:
        passed = (self._clock.now - self._began).total_seconds()
        found = (each for each in self.all if each.kind == kind and each.at_s <= passed < each.at_s + each.lasts_s)
        return next(found, None)

    def once(self, kind: str) -> bool:
        """Whether a fault of a moment is due. It is then spent."""
        passed = (self._clock.now - self._began).total_seconds()
        due = [each for each in self.all if each.kind == kind and each.at_s <= passed and each not in self._spent]
        self._spent.update(due[:1])
        return bool(due)

    def kills(self, function: str) -> int | None:
        """The call of a service at which the function that begins now is killed."""
        whose = "the watchdog is killed" if function == "Watchdog" else "a function is killed"
        return random.randrange(1, 15) if self.once(whose) else None

    def skew(self) -> timedelta:
        """By how much the clock of a function that begins now is wrong."""
        found = self.active("the clock steps")
        return timedelta(minutes=int(found.part)) if found else timedelta()

    def refuses_pods(self) -> int:
        """The exit code of a pod that stores something now; 0 if it can."""
        refused = self.active("S3 refuses")
        return 0 if refused is None else Exit.DENIED if refused.part == "AccessDenied" else Exit.UNAVAILABLE

    def answer(self, service: str, operation: str, do: Callable[[], Any], sleep: Callable[[float], None]) -> Any:
        """The answer of a service to one call, or what goes wrong instead."""
        name = {"s3": "S3", "kubernetes": "Kubernetes", "stepfunctions": "Step Functions", "cloudwatch": "CloudWatch"}
        called = name.get(service, service)
        if refused := self.active(f"{called} refuses") or self.active(f"{called} throttles"):
            if service == "kubernetes":
                if refused.part == "connection":
                    raise urllib3.exceptions.NewConnectionError(None, "Connection refused")  # type: ignore[arg-type]
                return status(int(refused.part))
            code = refused.part or "ThrottlingException"
            sleep(0 if code == "AccessDenied" else 5)
            raise client_error(code, operation.title().replace("_", ""), 403 if code == "AccessDenied" else 503)
        if self.active(f"{called} is slow"):
            sleep(20 if service == "kubernetes" else 32)
            if random.random() < 0.5:
                do()
            raise NO_ANSWER[service]
        if (lost := self.active(f"{called} loses answers")) and random.random() < SHARE_LOST[lost.lasts_s]:
            do()
            raise NO_ANSWER[service]
        return do()


NO_ANSWER: Mapping[str, Exception] = {
    "kubernetes": urllib3.exceptions.ReadTimeoutError(None, "", "Read timed out."),  # type: ignore[arg-type]
    "s3": botocore.exceptions.ReadTimeoutError(endpoint_url="https://bucket.s3.us-east-2.amazonaws.com/"),
}


def change(objects: dict[str, bytes], how: str, pick: Callable[[list[str]], str]) -> str | None:
    """Change the bytes of one folder that nobody is told of. Returns it if it was finished."""
    marks = [key for key in objects if key.endswith(s3_keys.COMPLETE)]
    files = sorted(key for key in objects if key.startswith(("models/", "compiled/")) and key not in marks)
    if not marks or not files:
        return None
    key = pick(files)
    changed = key[: key.index("/", key.index("/") + 1) + 1]
    if how == "flip":
        objects[key] = bytes([objects[key][0] ^ 1]) + objects[key][1:]
    elif how == "cut":
        objects[key] = objects[key][:-1]
    elif how == "extra":
        objects[key + ".tmp"] = b"left over"
    elif how == "missing":
        del objects[key]
    else:
        changed, other = (pick(sorted(marks)).removesuffix(s3_keys.COMPLETE) for _ in range(2))
        for name in [name for name in objects if name.startswith(changed)]:
            del objects[name]
        moved = {name: body for name, body in objects.items() if name.startswith(other)}
        objects |= {changed + name.removeprefix(other): body for name, body in moved.items()}
    return changed if changed + s3_keys.COMPLETE in marks else None
