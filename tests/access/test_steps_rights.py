"""Every object that a step touches in a whole run is one that its role may touch, for each kind of run."""

import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from specdecode import names
from specdecode.exit_codes import Exit
from specdecode.experiment.told import Forecasted
from specdecode.records import Servers
from specdecode.steps import diagnose, release, report
from specdecode.steps.errors import StepFailed

from constructs_lib.pipeline.functions import FUNCTIONS
from tests.specdecode.steps.test_endpoints import DOCUMENT
from tests.specdecode.steps.test_faults import damaged
from tests.specdecode.steps.test_sweep import SWEEP, Measured
from tests.specdecode.steps.world import DEFAULT, World

OF = {spec.module: spec for spec in FUNCTIONS.values()}
RIGHTS = {"GetObject": "reads", "HeadObject": "reads", "PutObject": "writes", "DeleteObject": "deletes"}


def step() -> str:
    """The module of the function that is running: the outermost one of the steps. What is wrapped around it is its."""
    found, frame = "", sys._getframe()
    while frame := frame.f_back:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("specdecode.steps.") and "<locals>" in frame.f_code.co_qualname:
            name = getattr(frame.f_locals.get("step"), "__module__", "")
        if name.startswith("specdecode.steps.") and name.rpartition(".")[2] in OF:
            found = name.rpartition(".")[2]
    return found


def forecasting() -> World:
    """A world in which run-0 has measured, and the drafts of run-1 have read its answers."""
    world = World(pools=(names.NODEPOOL, names.CPU_NODEPOOL))
    world.plan("run-0", {"experiment": "rehearsal-forecast"})
    world.s3.objects["runs/run-0/raw/base/count.jsonl"] = b"{}"
    told = Forecasted(draft="a/draft", case="count", prompts=1, at=((1, 1.5, 0.1),))
    world.s3.objects["runs/run-1/servers.json"] = Servers(run_id="run-1", forecast=(told,)).model_dump_json().encode()
    return world


ASKED: dict[str, tuple[Callable[[], World], dict[str, Any]]] = {
    "a run": (Measured, DEFAULT),
    "a sweep": (Measured, SWEEP),
    "servers that already run": (Measured, {"experiment": DOCUMENT}),
    "a forecast": (forecasting, {"experiment": "rehearsal-forecast", "set": {"answers": "run-0"}}),
}


@pytest.fixture(params=ASKED)
def touched(request: pytest.FixtureRequest) -> Iterator[set[tuple[str, str, str]]]:
    made, asked = ASKED[request.param]
    world, found = made(), set()
    world.s3.before = lambda operation, key: found.add((step(), operation, key))
    world.run_through(request=asked)
    release.release(world.given("run-1"), world.rt)
    report.report(world.given("run-1"), world.rt)
    diagnose.diagnose(world.given("run-1", error={"Error": "X", "Cause": "{}"}), world.rt)
    yield found


def beyond(touched: set[tuple[str, str, str]]) -> set[str]:
    """What a step touched and its role may not."""
    return {
        f"{name}: {operation} {key}"
        for name, operation, key in touched
        if name
        and operation in RIGHTS
        and not any(fnmatchcase(key, pattern) for pattern in getattr(OF[name], RIGHTS[operation]))
    }


def test_no_step_touches_what_its_role_may_not(touched: set[tuple[str, str, str]]) -> None:
    assert len({name for name, operation, _ in touched if name and operation in RIGHTS}) >= 10
    assert not beyond(touched)


@pytest.mark.parametrize(
    ("component", "code", "by"),
    [
        ("serving", Exit.DAMAGED_ARTIFACT, "serve"),
        ("serving", Exit.DAMAGED_MODEL, "serve"),
        ("serving", Exit.NOT_FOUND, "serve"),
        ("start-check", Exit.DAMAGED_MODEL, "compile"),
        ("compile", Exit.DAMAGED_MODEL, "compile"),
    ],
)
def test_nor_does_one_that_sets_a_damaged_folder_aside(component: str, code: Exit, by: str) -> None:
    world, touched = World(), set[tuple[str, str, str]]()
    world.s3.before = lambda operation, key: touched.add((step(), operation, key))
    if component == "serving":
        world.trouble[component] = damaged(code)
    else:
        world.job_fails[component] = code
    with pytest.raises(StepFailed):
        world.run_through()
    assert any(name == by and key.endswith("/COMPLETE.json") for name, _, key in touched)
    assert not beyond(touched)


def test_nor_does_the_diagnosis_that_sets_aside_what_a_restarted_server_found() -> None:
    world, touched = World(), set[tuple[str, str, str]]()
    world.run_through(until="Smoke")
    world.trouble["serving"] = damaged(Exit.DAMAGED_ARTIFACT)
    for pod in world.cluster.all("Pod"):
        world.cluster.logs[pod["metadata"]["name"]] = "specdecode: error 76: compiled/x/ is damaged"
    world.s3.before = lambda operation, key: touched.add((step(), operation, key))
    diagnose.diagnose(world.given("run-1", error={"Error": "BenchmarkFailed", "Cause": "it died"}), world.rt)
    assert any(found[:2] == ("diagnose", "DeleteObject") for found in touched)
    assert not beyond(touched)


def test_each_mark_that_a_step_may_delete_it_may_read() -> None:
    """It reads what it sets aside: another run may have made the folder anew."""
    assert [name for name, spec in FUNCTIONS.items() if not set(spec.deletes) <= set(spec.reads)] == []
