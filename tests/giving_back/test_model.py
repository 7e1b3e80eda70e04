"""No state in which a node is paid for and nobody will end it: every way to it, up to a stated size, is tried."""

from typing import Any

import pytest
from specdecode.runs.lease import LeaseStore
from specdecode.steps import acquire, release, replicas, watchdog
from specdecode.steps.runtime import Progress

from tests.backstop.aws import backstop
from tests.giving_back.model import Broken, Model, Way

SIZES = {
    "two runs": {"runs": 2, "failures": 0, "rounds": 0},
    "a run and the watchdog": {"runs": 1, "failures": 0},
}
"""Looked at by `make test`; about three seconds of CPU."""
WHOLE = {
    # 407,741 states in 32 s of CPU; 84,841 in 19 s
    "a run, the watchdog, a failure": {"runs": 1, "failures": 1},
    "two runs on two nodes": {"runs": 2, "nodes": 2, "failures": 0, "rounds": 0},
}
"""The largest sizes that end. Two runs with a failure do not in ten minutes; draws try those (tests/chaos)."""
FEWEST = {
    "two runs": 2000,
    "a run and the watchdog": 2000,
    "a run, the watchdog, a failure": 400_000,
    "two runs on two nodes": 80_000,
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


ALONE = Way("go on", watchdog=False, backstop=False)
WATCHED = Way("ended", backstop=False)
BACKSTOP = Way("ended", watchdog=False)


@pytest.mark.parametrize(
    ("broken", "size", "way"),
    [
        (no_condition, "two runs", ALONE),
        (looks_once, "two runs", ALONE),
        (no_release, "two runs", ALONE),
        (no_watchdog, "a run and the watchdog", WATCHED),
        (no_backstop, "a run and the watchdog", BACKSTOP),
        (None, "a run and the watchdog", Way("ended", watchdog=False, backstop=False)),
    ],
    ids=lambda each: getattr(each, "__name__", "nobody is alive" if each is None else None),
)
def test_what_is_broken_on_purpose_is_found_with_the_way_there(
    monkeypatch: pytest.MonkeyPatch, broken: Any, size: str, way: Way
) -> None:
    if broken:
        broken(monkeypatch)
    with pytest.raises(Broken, match="alive: "):
        Model(**SIZES[size], ways=(way,)).check()
