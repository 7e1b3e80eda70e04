"""A draw: runs of one of some shapes, faults at drawn moments, and what must be true in the end, whatever happened.

Everything follows from the seed. What is real and what is not is in docs/reliability.md.
"""

import contextlib
import json
import logging
import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from specdecode import names, s3_keys
from specdecode.experiment import Capacity, assets_dir
from specdecode.giving_back import BACKSTOP_PERIOD_MINUTES, WATCHDOG_PERIOD_MINUTES
from specdecode.kubernetes.diagnosis import explain, load_table
from specdecode.planning import Plan, make_bill
from specdecode.runs.lease import LeaseStore
from specdecode.steps import runtime
from specdecode.steps.diagnose import TABLE
from specdecode.steps.report import read_records

from tests.backstop.aws import NOW
from tests.chaos.clock import Clock
from tests.chaos.cluster import ChaosWorld
from tests.chaos.faults import KINDS, Fault, Faults, change, drawn
from tests.chaos.machine import Execution, Failed, Invocation
from tests.giving_back.services import BACKSTOP_WAITS_HOURS, backstop_looks

FEW = {"workload.cases": ["repeat-line"], "workload.prompts": [], "workload.requests": 4, "deadlines.capacity": 30}
PAIR: dict[str, Any] = {"experiment": "rehearsal", "set": FEW}
FORECAST: dict[str, Any] = {"experiment": "rehearsal-forecast", "set": FEW}
LAST_FAULT_S, FEWEST, MOST = 2400, 1, 4
"""A run alone takes about half an hour."""
PATIENCE = timedelta(hours=30)
DRAINS_MIN = 35.0
"""Minutes that a node may stay after the last run has given it back (docs/reference/bounds.md)."""
EXECUTION_MIN, BACKSTOP_MIN = 60 * BACKSTOP_WAITS_HOURS, 50.0
"""Minutes after which a running execution protects no node from the backstop, and until it has then ended it."""
PROCESS_RUNTIME = runtime.process_runtime
TICK_S, STEP_S = 15, 900
"""A step of a run takes less."""


UNASKED = {"CloudWatch throttles": "get_metric_statistics", "Step Functions refuses": "list_executions"}
"""What the backstop cannot ask meanwhile."""


class Shape(NamedTuple):
    """What runs. `later_s`: when the last run starts; 0: about when the first does."""

    requests: tuple[dict[str, Any], ...]
    nodes: int = 1
    theirs: bool = False
    later_s: int = 0


SHAPES = {
    "one node": Shape((PAIR,)),
    "two runs side by side": Shape((PAIR, PAIR), nodes=2),
    "runs in a queue": Shape((PAIR, PAIR, PAIR)),
    "own cluster": Shape((PAIR, PAIR), theirs=True),
    "schedule": Shape((PAIR, PAIR), later_s=1700),
    "forecast": Shape((FORECAST, PAIR)),
}
"""A schedule starts a run when another may still hold the node, or has just given it back."""


class Draw(NamedTuple):
    seed: int
    shape: str
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.shape}; {'; '.join(map(str, self.faults)) or 'no fault'}"


def draw(seed: int) -> Draw:
    rng = random.Random(seed)
    count = rng.randint(FEWEST, MOST)
    faults = sorted((drawn(rng, until_s=LAST_FAULT_S) for _ in range(count)), key=lambda fault: fault.at_s)
    return Draw(seed, rng.choice(list(SHAPES)), tuple(faults))


@dataclass
class Played:
    """How a draw ended. `broken`: the invariants that did not hold, in words."""

    draw: Draw
    broken: list[str] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)
    """Run -> status, and its cause's name."""
    hours: float = 0
    node_hours: float = 0


class Game:
    """Plays a draw to its end."""

    def __init__(self, draw: Draw) -> None:
        self.draw, self.shape = draw, SHAPES[draw.shape]
        self.clock = Clock(NOW)
        self.faults = Faults(draw.faults, self.clock)
        self.world = ChaosWorld(self.clock, self.faults, nodes=self.shape.nodes, theirs=self.shape.theirs)
        self.runs: dict[str, Execution] = {}
        self._left = len(self.shape.requests)
        self._beats: list[tuple[int, str, str, float]] = []
        self._counted = 0
        self._rng = random.Random(draw.seed)

    def play(self) -> Played:
        logging.disable()
        random.seed(self.draw.seed)
        found = Played(self.draw)
        try:
            self._begin()
            rest = self.clock.run(self._at_rest, most=PATIENCE)
            found.hours = (self.clock.now - NOW) / timedelta(hours=1)
            found.node_hours = sum(
                ((each.ended or self.clock.now) - each.began) / timedelta(hours=1) for each in self.world.instances
            )
            found.broken = list(self._broken() if rest else self._left_over())
            found.ends = {name: f"{run.status} {self._cause(run)}".strip() for name, run in self.runs.items()}
            if not found.broken and (
                self.draw.seed % 4 == 0
                or any("damaged" in str(each) or "change" in str(each) for each in self.draw.faults)
            ):
                self.faults.all = ()
                found.broken = [*self._another_run(), *self._folders()]
        except Exception as error:  # what is wrong in the code has a seed too
            at = traceback.extract_tb(error.__traceback__)[-1]
            found.broken = [f"{type(error).__name__}: {error} ({at.filename}, line {at.lineno})"]
        finally:
            self.clock.end()
            runtime.process_runtime = PROCESS_RUNTIME
            logging.disable(logging.NOTSET)
        return found

    # --- what goes on by itself

    def _begin(self) -> None:
        last = len(self.shape.requests) - 1
        for number, request in enumerate(self.shape.requests):
            begins = self._rng.uniform(0, 3) + self.shape.later_s * (number == last)
            self.clock.start(partial(self._start, f"run-{number + 1}", request), after_s=begins)
        self._every(TICK_S, self._tick)
        self._every(60 * BACKSTOP_PERIOD_MINUTES, self._backstop)
        self._every(60 * WATCHDOG_PERIOD_MINUTES, lambda: self.clock.start(self._watch))
        for fault in self.draw.faults:
            if happens := MOMENTS.get(fault.kind):
                self.clock.at(NOW + timedelta(seconds=fault.at_s), partial(happens, self, fault))

    def _every(self, seconds: int, what: Any) -> None:
        def again() -> None:
            what()
            self.clock.at(self.clock.now + timedelta(seconds=seconds), again)

        self.clock.at(self.clock.now + timedelta(seconds=seconds), again)

    def _start(self, run_id: str, request: dict[str, Any]) -> None:
        self._left -= 1
        self.runs[run_id] = Execution(self.world, run_id, request, self._ended)
        self.runs[run_id].walk()

    def _ended(self, run: Execution) -> None:
        """EventBridge tells the watchdog of an execution that ended badly, if nothing is lost."""
        if run.status != "SUCCEEDED" and not self.faults.active("an end is not told"):
            self.clock.start(self._watch, after_s=2)

    def _watch(self) -> None:
        if not self.faults.active("the watchdog is dead"):
            self._call("Watchdog", {"run_id": "watchdog"})

    def _call(self, name: str, payload: Any) -> None:
        """Nobody waits for the answer."""
        with contextlib.suppress(Failed):
            Invocation(self.world, name).run(payload)

    def _tick(self) -> None:
        self.world.react()
        minute = int((self.clock.now - NOW).total_seconds() // 60)
        for item in self.world.cloudwatch.data[self._counted :]:
            pool = (item.get("Dimensions") or [{"Value": ""}])[0]["Value"]
            if item["MetricName"] == "WatchdogHeartbeat" or pool:
                self._beats.append(
                    (minute, item["MetricName"], pool, item["Value"]) if "Value" in item else (0, "", "", 0.0)
                )
        self._counted = len(self.world.cloudwatch.data)

    def _backstop(self) -> None:
        world, slots = self.world, self.world.slots
        if not slots:
            return
        minute = int((self.clock.now - NOW).total_seconds() // 60)
        there = [world.alive(slot) for slot in slots]
        since = tuple(None if each is None else int((each.began - NOW).total_seconds() // 60) for each in there)
        going = sum(run.status == "RUNNING" for run in self.runs.values())
        after, world.closed = backstop_looks(
            slots,
            nodes=since,
            metrics=tuple(self._beats),
            going=going,
            minute=minute,
            closed=world.closed,
            denied={asked for kind, asked in UNASKED.items() if self.faults.active(kind)},
        )
        for node, left in zip(there, after, strict=True):
            if node and left is None:
                world.ends(node)

    # --- faults of a moment

    def _a_person_stops_a_run(self, fault: Fault) -> None:
        if going := [run for run in self.runs.values() if run.status == "RUNNING"]:
            self._rng.choice(going).end("ABORTED")

    def _a_function_is_called_twice(self, fault: Fault) -> None:
        going = [run for run in self.runs.values() if run.status == "RUNNING" and run.last]
        for run in going[:1]:
            self.clock.start(partial(self._call, *run.last))

    def _pods_are_killed(self, fault: Fault) -> None:
        """Those that run then, else the next that do."""
        late_s = (self.clock.now - NOW).total_seconds() - fault.at_s
        if not self.world.kill(fault.part) and late_s < STEP_S:
            self.clock.at(self.clock.now + timedelta(seconds=TICK_S), partial(self._pods_are_killed, fault))

    def _the_disk_is_full(self, fault: Fault) -> None:
        if self.faults.active(fault.kind):
            self.world.kill(fault.part, 73, log="error 73: No space left on device")
            self.clock.at(self.clock.now + timedelta(seconds=60), partial(self._the_disk_is_full, fault))

    def _the_node_is_gone(self, fault: Fault) -> None:
        if there := [each for each in self.world.instances if each.ended is None]:
            self.world.ends(self._rng.choice(there))

    def _the_node_hangs(self, fault: Fault) -> None:
        if there := [each for each in self.world.instances if each.ended is None and each.ready_at <= self.clock.now]:
            self._rng.choice(there).hung_at = self.clock.now

    def _bytes_change(self, fault: Fault) -> None:
        if changed := change(self.world.s3.objects, fault.part, self._rng.choice):
            self.world.history.changed[changed] += 1

    def _the_lease_is_damaged(self, fault: Fault) -> None:
        if s3_keys.CAPACITY_KEY in self.world.s3.objects:
            self.world.s3.objects[s3_keys.CAPACITY_KEY] = b'{"holder": {'

    def _a_runs_record_is_damaged(self, fault: Fault) -> None:
        records = sorted(
            key for key in self.world.s3.objects if key.startswith("runs/") and key.endswith("/state.json")
        )
        if records:
            self.world.s3.objects[self._rng.choice(records)] = b"[1, 2"

    # --- what must be true

    def _at_rest(self) -> bool:
        passed = (self.clock.now - NOW).total_seconds()
        over = all(fault.at_s + fault.lasts_s < passed for fault in self.draw.faults)
        return over and not self._left and not any(True for _ in self._left_over())

    def _left_over(self) -> Iterator[str]:
        """What still costs, or would keep somebody from a node."""
        world = self.world
        yield from (f"{name} goes on" for name, run in self.runs.items() if run.status == "RUNNING")
        yield from (f"{each.name} is billed" for each in world.instances if each.ended is None)
        yield from (f"Karpenter may launch nothing for {slot}" for slot in sorted(world.closed))
        pools = world.cluster.all("NodePool")
        yield from (f"{each['metadata']['name']} has replicas" for each in pools if each["spec"]["replicas"])
        yield from (f"{each} is left" for each in world.workloads())
        for queue in (world.rt.lease, world.rt.queue):
            known = LeaseStore(
                s3=world.s3, bucket="bucket", key=queue._key, slots=queue.slots, now=lambda: self.clock.now
            )
            try:
                yield from (f"{claim.run_id} is in the lease" for claim in known.read().claims)
            except Exception as error:
                yield f"the lease: {error}"

    def _broken(self) -> Iterator[str]:
        yield from self._folders()
        yield from self._records()
        for name, run in self.runs.items():
            if wrong := self._untrue(run):
                yield f"{name}: {wrong}"
        yield from self._cost()
        if self.world.theirs:
            inside = f"/namespaces/{names.NAMESPACE}"
            yield from (f"{path} was asked for" for _, path in self.world.cluster.requests if inside not in path)

    def _folders(self) -> Iterator[str]:
        yield from dict.fromkeys(self.world.wrong)
        yield from self.world.history.broken(self._plans())

    def _records(self) -> Iterator[str]:
        for run_id, wanted in self.world.delivered.items():
            found = [
                (f"{each.variant}/{each.case}", each.round, each.index)
                for each in read_records(self.world.rt.store, run_id)
            ]
            yield from (f"{run_id} lost {each}" for each in sorted(wanted - set(found)))
            yield from [f"{run_id} has records twice"] if len(found) != len(set(found)) else []

    def _untrue(self, run: Execution) -> str:
        """Why the end of a run does not follow from the faults; "" if it does."""
        before = [fault for fault in self.draw.faults if NOW + timedelta(seconds=fault.at_s) <= run.ended_at]
        if run.status == "ABORTED":
            return "" if any(fault.kind == "a person stops a run" for fault in before) else "aborted by nobody"
        may = frozenset[str]().union(*(KINDS[fault.kind].causes for fault in before))
        if run.status == "FAILED":
            cause = self._cause(run)
            if run.cause.startswith("{") and "functions-throttled" not in may:
                return f"its cause is no sentence: {run.cause[:300]}"
            return "" if cause in may else f"{cause} is no cause of these faults: {run.cause[:300]}"
        return ""

    def _has(self, kind: str) -> bool:
        return any(fault.kind == kind for fault in self.draw.faults)

    def _cause(self, run: Execution) -> str:
        """The row of the table of causes; the error where no diagnosis could be stored."""
        if run.status != "FAILED":
            return ""
        stored = self.world.s3.objects.get(s3_keys.run_key(run.run_id, "diagnostics", "diagnosis.json"))
        if stored:
            return str(json.loads(stored)["row"])
        return explain(load_table(assets_dir() / TABLE), {"error": f"{run.error}: {run.cause}"})[0]

    def _cost(self) -> Iterator[str]:
        """Nodes are billed for what plans say at most, and for what a fault adds before the backstop ends them."""
        capacity, bound = Capacity.model_validate_json(self.world.rt.environ["CAPACITY"]), DRAINS_MIN
        paid = sum((each.ended - each.began) / timedelta(minutes=1) for each in self.world.instances if each.ended)
        bound += sum(60 * make_bill(plan, capacity).longest_node_hours for plan in self._plans())
        bound += sum(min(fault.lasts_s / 60, EXECUTION_MIN) + BACKSTOP_MIN for fault in self.draw.faults)
        if paid > bound:
            yield f"nodes were billed for {paid:.0f} min, and the bound is {bound:.0f}"

    def _plans(self) -> list[Plan]:
        stored = self.world.s3.objects.items()
        return [Plan.model_validate_json(body) for key, body in stored if key.endswith("/plan.json")]

    def _another_run(self) -> Iterator[str]:
        """Nothing stays in the way of the next run, or of the one after it, if that one has to find damage."""
        for name in ("run-after", "run-after-it"):
            self._left = 1
            self.clock.start(partial(self._start, name, self.shape.requests[0]))
            if not self.clock.run(self._at_rest, most=PATIENCE):
                yield from (f"{name}: {each}" for each in self._left_over())
                return
            if self.runs[name].status == "SUCCEEDED":
                return
            if not (self._has("bytes change") and self._cause(self.runs[name]) == "damaged" and name == "run-after"):
                yield f"{name}: {self.runs[name].error}: {self.runs[name].cause[:300]}"
                return


MOMENTS: dict[str, Callable[[Game, Fault], None]] = {
    "a person stops a run": Game._a_person_stops_a_run,
    "a function is called twice": Game._a_function_is_called_twice,
    "pods are killed": Game._pods_are_killed,
    "the disk is full": Game._the_disk_is_full,
    "the node is gone": Game._the_node_is_gone,
    "the node hangs": Game._the_node_hangs,
    "bytes change": Game._bytes_change,
    "the lease is damaged": Game._the_lease_is_damaged,
    "a run's record is damaged": Game._a_runs_record_is_damaged,
}


def play(draw: Draw) -> Played:
    return Game(draw).play()


def shrunk(found: Played) -> Played:
    """The same with fewer faults, as long as something is broken."""
    for fault in found.draw.faults:
        fewer = tuple(each for each in found.draw.faults if each != fault)
        if (again := play(found.draw._replace(faults=fewer))).broken:
            return shrunk(again)
    return found
