"""Every way in which runs, the watchdog, Karpenter and failures can come between each other, up to a stated number.

A state is the bucket's documents, the pools, the executions, and how far each function has come. From each state that
can be reached, those who are still alive go on alone, in turns and without a further failure: they must end what is
paid for. What they are in turn is in `WAYS`.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import NamedTuple

from specdecode import names, s3_keys
from specdecode.runs.lease import Lease, impossible

from tests.backstop.aws import NOW
from tests.giving_back.replay import LOST, Ask, End, Program, Replay
from tests.giving_back.services import Call, Run, Services, State, changed, stored

TRIES = 5
"""Of a function that fails without a reason of its own, as the state machine's retriers."""
TURNS = 48
"""Turns of five minutes in which those who are alive must have ended everything: four hours, of which the backstop
waits two (EXECUTION_HOURS below).
"""
SHARED = ("list", "describe")
BROKEN = b'{"holder": {'
CLOSED = Lease(closed=True).model_dump_json(indent=1).encode()
"""What LeaseStore.close writes, whatever is there."""
TO_COME, SHUT, SCALED = "the deletion is to come", "the deletion closes the lease", "the deletion scales to 0"


class Way(NamedTuple):
    """Who is alive from a state on. `runs`: go on, have ended (stopped by a person, lost), or hang for ever."""

    runs: str
    watchdog: bool = True
    backstop: bool = True
    karpenter: bool = True
    bucket: bool = True


WAYS = (
    Way("go on", backstop=False),
    Way("ended", backstop=False),
    Way("go on", watchdog=False),
    Way("ended", watchdog=False),
    Way("hang"),
    Way("hang", watchdog=False),
    Way("ended", karpenter=False),
    Way("ended", watchdog=False, karpenter=False),
    Way("ended", backstop=False, bucket=False),
    Way("go on", watchdog=False, backstop=False, bucket=False),
    Way("go on", watchdog=False, backstop=False),
)
"""The last two are tried only where nothing is `hurt`."""


class Broken(AssertionError):
    """A state from which a node is paid for and nobody ends it. The message has the way there."""


class Model:
    """`failures`: how many calls may be lost, functions die or come twice, executions end, clocks step or documents
    break, at any point. `rounds`: how often the watchdog looks meanwhile. `deletes`: whether the stack's deletion
    closes the lease, and later scales to 0. `listed`: the runs
    that Step Functions lists as running, which may be late.
    """

    def __init__(
        self,
        *,
        runs: int = 2,
        nodes: int = 1,
        failures: int = 1,
        rounds: int = 1,
        deletes: bool = False,
        ways: tuple[Way, ...] = WAYS,
        listed: Callable[[Run], bool] = lambda run: run.status == "RUNNING",
    ) -> None:
        self._replay = Replay(runs=runs, nodes=nodes)
        self._slots, self._ways = self._replay.slots, ways
        self._services = Services(self._replay, listed=listed)
        pools = len(self._slots)
        self.first = State((Run(),) * runs, (), (0,) * pools, (None,) * pools, left=failures, rounds=rounds)
        self.first = self.first._replace(deletion=TO_COME if deletes else "")
        self._good: set[tuple[State, Way]] = set()
        self._leases: dict[tuple[bytes, int], tuple[Lease, str | None]] = {}
        self.edges = 0

    def check(self) -> int:
        """Look at every state; returns how many there are. Raises Broken.

        Where functions are under way, their going on is a state of its own. So `WAYS` are tried where none is.
        """
        came: dict[State, tuple[State, str] | None] = {self.first: None}
        todo = [self.first]
        while todo:
            state = todo.pop()
            if why := self._untrue(state):
                raise Broken("\n".join((why, *_path(came, state))))
            for way in self._ways if _is_calm(state) else ():
                if (len(self._ways) == 1 or way.watchdog or way.backstop or not state.hurt) and (
                    why := self._ends(state, way)
                ):
                    raise Broken(f"{why}\nalive: {way}\n" + "\n".join(_path(came, state)))
            for label, after in self._moves(state):
                self.edges += 1
                if after not in came:
                    came[after] = (state, label)
                    todo.append(after)
        return len(came)

    # --- what can happen next

    def _moves(self, state: State) -> Iterator[tuple[str, State]]:
        for index, run in enumerate(state.runs):
            if run.status == "RUNNING":
                yield f"run {index + 1} {run.phase}", self._step_run(state, index)
        for number in range(len(state.zombies)):
            yield "a forgotten function goes on", self._step_zombie(state, number)
        if state.watch or state.rounds:
            yield "the watchdog", self._step_watch(state)
        if state.deletion == TO_COME:
            yield SHUT, stored(state, s3_keys.CAPACITY_KEY, CLOSED)._replace(deletion=SHUT, taken=True)
        if state.deletion == SHUT:
            yield SCALED, state._replace(deletion=SCALED, replicas=(0,) * len(self._slots))
        for number in range(len(self._slots)):
            if (after := self._services.karpenter(state, number)) is not state:
                yield "Karpenter", after._replace(taken=state.taken or self._is_taken(state, number))
        if state.left > 0:
            yield from self._failures(state._replace(left=state.left - 1))

    def _failures(self, state: State) -> Iterator[tuple[str, State]]:
        for minutes in (-120, 120):
            yield f"the clock steps by {minutes} min", state._replace(minute=state.minute + minutes, hurt=True)
        yield "the lease's document is damaged", stored(state, s3_keys.CAPACITY_KEY, BROKEN)._replace(hurt=True)
        for index, run in enumerate(state.runs):
            if run.status != "RUNNING":
                continue
            zombies = (run.call,) if run.call else ()
            yield f"run {index + 1} is stopped", changed(state, index, status="ABORTED", call=None, zombies=zombies)
            if run.call:
                yield f"run {index + 1}'s function is called again", changed(state, index, call=None, zombies=zombies)
                yield f"run {index + 1}'s function dies", self._ended(state, index, End(False, "Died"))
                for half in (False, True):
                    word = "half lost" if half else "lost"
                    yield f"run {index + 1}'s call is {word}", self._step_run(state, index, lose=word)
        if state.watch:
            yield "the watchdog dies", state._replace(watch=None, hurt=True)
            for word in ("half lost", "lost"):
                yield f"the watchdog's call is {word}", self._step_watch(state._replace(hurt=True), lose=word)

    def _step_run(self, state: State, index: int, *, lose: str = "") -> State:
        run = state.runs[index]
        call = run.call or Call(Program(run.phase, index, state.minute))
        state, then = self._go_on(state, call, begins=run.call is None, lose=lose)
        if isinstance(then, Call):
            return changed(state, index, call=then, hurt=state.hurt)
        return self._ended(state, index, then)

    def _ended(self, state: State, index: int, end: End) -> State:
        run = state.runs[index]
        last = run.phase == "release"
        if end.done:
            following = {"acquire": "work", "work": "release"}.get(run.phase, "release")
            status = ("FAILED" if run.failed else "SUCCEEDED") if last else "RUNNING"
            return changed(state, index, call=None, phase=following, tries=0, status=status, hurt=state.hurt)
        if not end.error:
            return changed(state, index, call=None, hurt=state.hurt)
        typed = end.error in {"LeaseLost", "NodeLost", "CapacityUnavailable", "LeaseDamaged", "StateDamaged"}
        if run.tries + 1 < TRIES and not typed:
            return changed(state, index, call=None, tries=run.tries + 1, hurt=state.hurt)
        if last:
            return changed(state, index, call=None, failed=True, status="FAILED", hurt=state.hurt)
        return changed(state, index, call=None, failed=True, phase="release", tries=0, hurt=state.hurt)

    def _step_zombie(self, state: State, number: int) -> State:
        state, then = self._go_on(state, state.zombies[number])
        rest = state.zombies[:number] + state.zombies[number + 1 :]
        return state._replace(zombies=tuple(sorted((*rest, then) if isinstance(then, Call) else rest, key=repr)))

    def _step_watch(self, state: State, *, lose: str = "") -> State:
        begins = state.watch is None
        call = state.watch or Call(Program("watch", 0, state.minute))
        state = state._replace(rounds=max(0, state.rounds - begins))
        state, then = self._go_on(state, call, begins=begins, lose=lose)
        return state._replace(watch=then if isinstance(then, Call) else None)

    def _go_on(self, state: State, call: Call, *, begins: bool = False, lose: str = "") -> tuple[State, Call | End]:
        """The function's next call of a service that others see, and what it does up to the one after it."""
        first = not begins
        while True:
            ask = self._replay.next(*call)
            if isinstance(ask, End):
                return state, ask
            if not first and _is_shared(ask):
                return state, call
            after, answer = self._services.answer(state, ask)
            state = state if lose == "lost" else after
            call = call._replace(answers=(*call.answers, self._replay.numbered(LOST if lose else answer)))
            first, lose = False, ""

    # --- what those who are alive make of it

    def _untrue(self, state: State) -> str | None:
        """What cannot be where nothing is `hurt`."""
        if state.hurt:
            return None
        lease, wrong = self._lease(state)
        if wrong:
            return f"the lease cannot be true: {wrong}"
        if state.deletion in (SHUT, SCALED) and (not lease.closed or lease.claims):
            return "a closed lease gives a node out"
        if any(run.failed for run in state.runs) and not state.taken:
            return "a run failed, though nothing else did"
        follows = tuple(map(lease.replicas_of, self._slots)) == state.replicas
        if state.deletion != SHUT and _is_calm(state) and not follows and not any(run.tries for run in state.runs):
            return "the replicas do not follow the lease, and nobody is at it"
        return None

    def _is_taken(self, state: State, number: int) -> bool:
        """Whether Karpenter ends a node now that a run holds."""
        return (
            not state.hurt
            and not state.replicas[number]
            and bool(self._lease(state)[0].replicas_of(self._slots[number]))
        )

    def _lease(self, state: State) -> tuple[Lease, str | None]:
        """What is stored, and why it cannot be true."""
        body = dict(state.stored).get(s3_keys.CAPACITY_KEY, b"{}")
        if (body, state.minute) not in self._leases:
            lease, now = Lease.model_validate_json(body), NOW + timedelta(minutes=state.minute)
            self._leases[body, state.minute] = lease, impossible(lease, slots=self._replay.nodes, now=now)
        return self._leases[body, state.minute]

    def _ends(self, state: State, way: Way) -> str | None:
        """None if they end everything. Else what is left."""
        state = state._replace(left=-1, rounds=0, denied=not way.bucket, hurt=state.hurt or not way.bucket)
        for index, run in enumerate(state.runs):
            if run.status == "RUNNING" and way.runs == "ended":
                state = changed(state, index, status="ABORTED")
        passed = [(state, way)]
        for _ in range(TURNS):
            if (state, way) in self._good:
                break
            if self._is_over(state, way):
                break
            state = self._turn(state, way)
            if why := self._untrue(state):
                return why
            passed.append((state, way))
        else:
            return f"not over after {TURNS} turns: {state}"
        self._good.update(passed)
        return None

    def _turn(self, state: State, way: Way) -> State:
        for index in range(len(state.runs)):
            if way.runs == "go on" and state.runs[index].status == "RUNNING":
                state = self._step_run(state, index)
                while state.runs[index].call:
                    state = self._step_run(state, index)
        if way.karpenter:
            for number in range(len(self._slots)):
                state = self._services.karpenter(state, number)
        if way.watchdog:
            state = self._step_watch(state)
            while state.watch:
                state = self._step_watch(state)
        state = state._replace(minute=state.minute + 5)
        return self._services.backstop(state) if way.backstop and state.minute % 10 == 0 else state

    def _is_over(self, state: State, way: Way) -> bool:
        """Nothing is paid for, and nothing will be. The lease is empty if somebody is there who can write it."""
        launchable = any(
            wanted and slot not in state.closed for slot, wanted in zip(self._slots, state.replicas, strict=True)
        )
        if any(since is not None for since in state.nodes) or (launchable and way.karpenter):
            return False
        if way.runs == "hang":
            return True
        if any(run.status == "RUNNING" for run in state.runs):
            # Who waits behind a run that has ended, for a node that Karpenter may not launch, costs nothing until
            # QUEUE_LIMIT ends it.
            return way.backstop and not way.watchdog and bool(state.closed)
        lease = dict(state.stored).get(s3_keys.CAPACITY_KEY)
        empty = lease is None or (b"run-" not in lease and lease != BROKEN)
        return not way.watchdog or not way.bucket or (empty and not any(state.replicas))


def _is_calm(state: State) -> bool:
    return not state.watch and not state.zombies and not any(run.call for run in state.runs)


def _is_shared(ask: Ask) -> bool:
    if ask[0] == "kube":
        return f"nodepools/{names.NODEPOOL}" in ask[2]
    return ask[0] in SHARED or (ask[0] in ("get", "put") and ask[1] == s3_keys.CAPACITY_KEY)


def _path(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    labels: list[str] = []
    while (before := came[state]) is not None:
        state, label = before
        labels.append(label)
    return labels[::-1]
