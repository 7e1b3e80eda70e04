"""No state in which a node is paid for and nobody will end it: every way to it, up to a stated size, is tried."""

from typing import Any

import pytest
from specdecode.runs import lease as leases
from specdecode.runs.lease import Lease, LeaseStore
from specdecode.steps import acquire, release, replicas, watchdog
from specdecode.steps.runtime import Progress

from tests.backstop.aws import backstop
from tests.giving_back.model import WAYS, Broken, Model, Way

LEASE_READ = tuple(way for way in WAYS if way.bucket)
SIZES: dict[str, dict[str, Any]] = {
    "two runs": {"runs": 2, "failures": 0, "rounds": 0},
    "a run and the watchdog": {"runs": 1, "failures": 0},
    "a run, the watchdog and a deletion": {"runs": 1, "failures": 0, "deletes": True},
    "a list that lacks every run": {"runs": 1, "failures": 0, "listed": lambda run: False},
    "a list with runs that have ended": {"runs": 1, "failures": 0, "listed": lambda run: True, "ways": LEASE_READ},
}
"""Looked at by `make test`; about twenty seconds of CPU. Where no lease can be read, a list that is late for ever
keeps the node until the backstop ends it.
"""
WHOLE = {
    # 531,921 states in 107 s of CPU beside others; 83,029 in 41 s
    "a run, the watchdog, a failure": {"runs": 1, "failures": 1},
    "two runs on two nodes": {"runs": 2, "nodes": 2, "failures": 0, "rounds": 0},
    "two runs and a deletion": {"runs": 2, "failures": 0, "rounds": 0, "deletes": True},
}
"""The largest sizes that end. Two runs with a failure do not in ten minutes; draws try those (tests/chaos)."""
FEWEST = {
    "two runs": 3000,
    "a run and the watchdog": 3000,
    "a run, the watchdog and a deletion": 60_000,
    "a list that lacks every run": 3000,
    "a list with runs that have ended": 3000,
    "a run, the watchdog, a failure": 500_000,
    "two runs on two nodes": 80_000,
    "two runs and a deletion": 40_000,
}
"""States that there are at least: a model that looks at few finds nothing."""


@pytest.mark.parametrize(
    "size", [*SIZES, *(pytest.param(size, marks=pytest.mark.slow) for size in WHOLE)], ids=lambda size: size
)
def test_from_every_state_those_who_are_alive_end_what_is_paid_for(size: str) -> None:
    assert Model(**(SIZES | WHOLE)[size]).check() > FEWEST[size]


def no_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is written whoever wrote it meanwhile."""
    real = LeaseStore._write
    monkeypatch.setattr(LeaseStore, "_write", lambda self, lease, condition: real(self, lease, {}))


def no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "release", lambda given, rt: Progress(done=True, message=""))


def no_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no claim out of the lease."""
    monkeypatch.setattr(watchdog, "_ended", lambda *given: [])


def no_backstop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backstop.Backstop, "look", lambda self: {})


def looks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who scales does not look whether the lease has changed meanwhile."""

    def follow(pools: Any, lease: LeaseStore, *, known: Any = None) -> Any:
        wanted = known or lease.read()
        replicas.set_replicas(pools, wanted, lease.slots)
        return wanted

    for module in (acquire, release, watchdog):
        monkeypatch.setattr(module, "follow_lease", follow)


def one_node_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot counts as free though a run holds it."""
    real = leases._promote

    def promote(lease: Lease, **given: Any) -> Lease:
        held = Lease(holders=(), queue=lease.queue)
        return Lease(holders=(*lease.holders, *real(held, **given).holders), queue=())

    monkeypatch.setattr(leases, "_promote", promote)


def asks_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that stands in the lease joins its queue once more."""
    monkeypatch.setattr(Lease, "position", lambda self, run_id: None)


def never_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run joins a lease that is closed."""
    real = leases.request
    monkeypatch.setattr(
        leases, "request", lambda lease, **given: real(lease.model_copy(update={"closed": False}), **given)
    )


ALONE = Way("go on", watchdog=False, backstop=False)
WATCHED = Way("ended", backstop=False)
BACKSTOP = Way("ended", watchdog=False)


@pytest.mark.parametrize(
    ("broken", "size", "way", "why"),
    [
        (no_condition, "two runs", ALONE, "the replicas do not follow the lease"),
        (looks_once, "two runs", ALONE, "the replicas do not follow the lease"),
        (one_node_twice, "two runs", ALONE, "the lease cannot be true: two runs hold the same node"),
        (asks_twice, "two runs", ALONE, "the lease cannot be true: a run stands in it twice"),
        (never_closed, "a run, the watchdog and a deletion", ALONE, "a closed lease gives a node out"),
        (no_release, "two runs", ALONE, "alive: "),
        (no_watchdog, "a run and the watchdog", WATCHED, "alive: "),
        (no_backstop, "a run and the watchdog", BACKSTOP, "alive: "),
        (None, "a run and the watchdog", Way("ended", watchdog=False, backstop=False), "alive: "),
    ],
    ids=lambda each: getattr(each, "__name__", "nobody is alive" if each is None else None),
)
def test_what_is_broken_on_purpose_is_found_with_the_way_there(
    monkeypatch: pytest.MonkeyPatch, broken: Any, size: str, way: Way, why: str
) -> None:
    if broken:
        broken(monkeypatch)
    with pytest.raises(Broken, match=why):
        Model(**SIZES[size], ways=(way,)).check()
