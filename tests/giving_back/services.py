"""A state of the model, and the services as they answer in it: bucket, Step Functions, Kubernetes, EC2, metrics."""

import contextlib
import json
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from specdecode import names

from tests.backstop.aws import NOW, OLD, Aws, backstop, look
from tests.giving_back.replay import LOST, Ask, Program, Replay, etag
from tests.specdecode.steps.world import NODE_CLASS, POOL, _slice, karpenter_objects, made_ready

BACKSTOP_WAITS_HOURS = 2
"""Age of an execution that protects no instance any more; of a deployment it is days."""


class Call(NamedTuple):
    """A function under way."""

    program: Program
    answers: tuple[int, ...] = ()


class Run(NamedTuple):
    """An execution: the step that it is at, and the function that it waits for."""

    phase: str = "acquire"
    status: str = "RUNNING"
    tries: int = 0
    call: Call | None = None
    failed: bool = False
    """Whether it is at its release because a step failed."""


class State(NamedTuple):
    """Everything that anybody can see, and everybody's place."""

    runs: tuple[Run, ...]
    stored: tuple[tuple[str, bytes], ...] = ()
    """Documents that were written."""
    replicas: tuple[int, ...] = ()
    nodes: tuple[int | None, ...] = ()
    """Minute of each pool's instance's launch."""
    zombies: tuple[Call, ...] = ()
    """Functions for which nobody waits any more."""
    watch: Call | None = None
    minute: int = 0
    closed: frozenset[str] = frozenset()
    """Pools of which Karpenter may launch nothing."""
    metrics: tuple[tuple[int, str, str, float], ...] = ()
    left: int = 0
    """Failures that may still come."""
    rounds: int = 0
    """How often the watchdog may still begin."""
    deletion: str = ""
    """Of the stack: it is to come, or how far it is. Step Functions shows it no execution to stop."""
    hurt: bool = False
    """Whether something failed that the state machine alone cannot mend."""
    denied: bool = False
    """Whether the bucket refuses everything."""
    taken: bool = False
    """Whether Karpenter ended a node that a run held: whoever scales to 0 looks at the lease again, and it was quicker.
    """


class Services:
    """What each call of a service finds in a state, and the state after it."""

    def __init__(self, replay: Replay, *, listed: Callable[[Run], bool]) -> None:
        self._replay, self._slots, self._listed = replay, replay.slots, listed
        self._looks: dict[Any, tuple[tuple[int | None, ...], frozenset[str]]] = {}
        self._seen: dict[Any, tuple[int, bytes]] = {}

    def answer(self, state: State, ask: Ask) -> tuple[State, Any]:
        if state.denied and ask[0] in ("get", "put"):
            return state, LOST
        match ask:
            case "get", key:
                return state, dict(state.stored).get(key, self._replay.stored.get(key))
            case "put", key, body, *conditions:
                held = dict(state.stored).get(key, self._replay.stored.get(key))
                wanted = dict(conditions)
                if ("IfNoneMatch" in wanted and held is not None) or (
                    "IfMatch" in wanted and (held is None or wanted["IfMatch"] != etag(held))
                ):
                    return state, False
                return stored(state, key, body), True
            case ("list",):
                named = zip(self._replay.runs, state.runs, strict=True)
                return state, tuple(name for name, run in named if self._listed(run))
            case "describe", name:
                return state, state.runs[self._replay.runs.index(name)].status
            case "metrics", found:
                if state.left >= 0:  # a datapoint of this minute, of the six or more that the backstop looks at
                    return state, True
                kept = [item for item in state.metrics if item[0] > state.minute - 30]
                return state._replace(metrics=(*kept, *((state.minute, *item) for item in found))), True
            case "kube", method, path, body, *selector:
                return self._kubernetes(state, method, path.split("/"), json.loads(body or "null"), "".join(selector))
        raise AssertionError(ask)

    def _kubernetes(
        self, state: State, method: str, path: list[str], body: Any, selector: str
    ) -> tuple[State, tuple[int, bytes]]:
        if method == "PATCH":
            replicas = list(state.replicas)
            replicas[self._slots.index(path[-2])] = body["spec"]["replicas"]
            return state._replace(replicas=tuple(replicas)), (200, b"{}")
        if method == "DELETE":
            return state, (200, b"{}")
        seen = (*path[-2:], selector, state.replicas, state.nodes)
        if seen not in self._seen:
            self._seen[seen] = self._read(state, path, selector)
        return state, self._seen[seen]

    def _read(self, state: State, path: list[str], selector: str) -> tuple[int, bytes]:
        if path[-2] == "nodepools":
            if path[-1] not in self._slots:
                return (404, b"{}")
            pool = made_ready(karpenter_objects()[1])
            pool["metadata"] = {"name": path[-1], "creationTimestamp": _time(-600)}
            pool["spec"]["replicas"] = state.replicas[self._slots.index(path[-1])]
            return (200, json.dumps(pool).encode())
        if path[-1] == NODE_CLASS:
            return (200, json.dumps(made_ready(karpenter_objects()[0])).encode())
        items: list[Any] = []
        for slot, since in zip(self._slots, state.nodes, strict=True):
            labels = {POOL: slot}
            if since is None or selector not in ("", POOL, f"{POOL}={slot}"):
                continue
            meta = {"name": "trn2-node" if slot == names.NODEPOOL else slot, "labels": labels}
            if path[-1] == "nodes":
                items.append(made_ready({"kind": "Node", "metadata": meta}))
            elif path[-1] == "nodeclaims":
                items.append({"kind": "NodeClaim", "metadata": meta | {"creationTimestamp": _time(since)}})
            elif path[-1] == "resourceslices":
                items.append(_slice(16, meta["name"]))
        return (200, json.dumps({"items": items}).encode())

    def karpenter(self, state: State, number: int) -> State:
        """One pool's node comes or goes."""
        wanted, there = state.replicas[number], state.nodes[number] is not None
        if wanted and not there and self._slots[number] not in state.closed:
            return with_node(state, number, state.minute)
        return with_node(state, number, None) if there and not wanted else state

    def backstop(self, state: State) -> State:
        going = sum(run.status == "RUNNING" for run in state.runs)
        seen = (going, state.nodes, state.minute, state.closed, state.metrics)
        if seen not in self._looks:
            self._looks[seen] = backstop_looks(
                self._slots,
                nodes=state.nodes,
                metrics=state.metrics,
                going=going,
                minute=state.minute,
                closed=state.closed,
            )
        nodes, closed = self._looks[seen]
        return state._replace(nodes=nodes, closed=closed)


def backstop_looks(
    slots: Sequence[str],
    *,
    nodes: tuple[int | None, ...],
    metrics: Sequence[tuple[int, str, str, float]],
    going: int,
    minute: int,
    closed: frozenset[str],
    denied: Collection[str] = (),
) -> tuple[tuple[int | None, ...], frozenset[str]]:
    """The nodes that the backstop leaves, and the pools that it closes (as in State). It waits BACKSTOP_WAITS_HOURS.
    `denied`: what it cannot ask.
    """
    aws = Aws()
    aws.denied = set(denied)
    for slot, since in zip(slots, nodes, strict=True):
        if since is not None:
            aws.instance(slot, OLD, **{"karpenter.sh/nodepool": slot})
            aws.instances[slot]["launched"] = NOW + timedelta(minutes=since)
    recent = [item for item in metrics if minute - 30 <= item[0] < minute]
    aws.metrics = {"WatchdogHeartbeat": [value for _, name, _, value in recent if name == "WatchdogHeartbeat"]}
    for slot in slots:
        of_slot = [(name, value) for _, name, pool, value in recent if pool == slot]
        aws.of_pool[slot] = {
            wanted: [value for name, value in of_slot if name == wanted] for wanted in ("LeaseAge", "NodesWithoutLease")
        } | {"WatchdogHeartbeat": aws.metrics["WatchdogHeartbeat"]}
    aws.executions = [NOW] * going
    aws.attached |= {f"arn:aws:iam::1:policy/no-launch-{slot}" for slot in closed}
    with contextlib.redirect_stdout(None), contextlib.suppress(*([RuntimeError] if denied else [])):
        look(
            aws,
            later=timedelta(minutes=minute),
            pools=tuple(slots),
            HOLDING_HOURS="1",
            EXECUTION_HOURS=str(BACKSTOP_WAITS_HOURS),
        )
    left = tuple(since if slot in aws.alive else None for slot, since in zip(slots, nodes, strict=True))
    return left, frozenset(slots if backstop.ALL in aws.closed else aws.closed)


def stored(state: State, key: str, body: bytes) -> State:
    return state._replace(stored=tuple(sorted({**dict(state.stored), key: body}.items())))


def changed(state: State, index: int, *, zombies: tuple[Call, ...] = (), hurt: bool = True, **changes: Any) -> State:
    """The state with another execution. Unless told otherwise it is one that the state machine alone cannot mend."""
    runs = list(state.runs)
    runs[index] = runs[index]._replace(**changes)
    return state._replace(runs=tuple(runs), hurt=hurt, zombies=tuple(sorted((*state.zombies, *zombies), key=repr)))


def with_node(state: State, number: int, since: int | None) -> State:
    return state._replace(nodes=(*state.nodes[:number], since, *state.nodes[number + 1 :]))


def _time(minute: int) -> str:
    return (NOW + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ")
