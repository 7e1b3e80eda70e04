"""Every object that a step touches in a whole run is one that its role may touch: a run, and an adaptive sweep."""

import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest
from specdecode.steps import diagnose, release, report

from constructs_lib.pipeline.functions import FUNCTIONS
from tests.specdecode.steps.test_sweep import SWEEP, Measured
from tests.specdecode.steps.world import DEFAULT

OF = {spec.module: spec for spec in FUNCTIONS.values()}
RIGHTS = {"GetObject": "reads", "HeadObject": "reads", "PutObject": "writes", "DeleteObject": "deletes"}


def step() -> str:
    """The module of the function that is running: the outermost one of the steps."""
    found, frame = "", sys._getframe()
    while frame := frame.f_back:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("specdecode.steps.") and name.rpartition(".")[2] in OF:
            found = name.rpartition(".")[2]
    return found


@pytest.fixture(params=["a run", "a sweep"])
def touched(request: pytest.FixtureRequest) -> Iterator[set[tuple[str, str, str]]]:
    world, found = Measured(), set()
    world.s3.before = lambda operation, key: found.add((step(), operation, key))
    world.run_through(request=SWEEP if request.param == "a sweep" else DEFAULT)
    release.release(world.given("run-1"), world.rt)
    report.report(world.given("run-1"), world.rt)
    diagnose.diagnose(world.given("run-1", error={"Error": "X", "Cause": "{}"}), world.rt)
    yield found


def test_no_step_touches_what_its_role_may_not(touched: set[tuple[str, str, str]]) -> None:
    mine = {(name, operation, key) for name, operation, key in touched if name and operation in RIGHTS}
    assert len({name for name, *_ in mine}) >= 10
    beyond = {
        f"{name}: {operation} {key}"
        for name, operation, key in mine
        if not any(fnmatchcase(key, pattern) for pattern in getattr(OF[name], RIGHTS[operation]))
    }
    assert not beyond
