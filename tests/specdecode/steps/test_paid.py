"""A run compiles no more than its accepted price has, whatever goes from the bucket after it was planned."""

import math

import pytest
from specdecode import names
from specdecode.experiment import load_preset, preset_names
from specdecode.planning import Inventory, make_bill, needed_prefixes, paid_compiles
from specdecode.planning.timeline import COMPILE, ON_CPU
from specdecode.steps import compile as compiling
from specdecode.steps import release
from specdecode.steps.errors import CompileFailed

from tests.plans import PRICED, plan_for
from tests.specdecode.steps.world import World

TWO_ROUNDS = {"experiment": "rehearsal", "set": {"workload.rounds": 2}}


def lose(world: World, count: int = 2) -> list[str]:
    """The first `count` artifacts go from the bucket."""
    marks = [key for key in world.s3.objects if key.startswith("compiled/") and key.endswith("COMPLETE.json")][:count]
    for mark in marks:
        del world.s3.objects[mark]
    return [mark.removesuffix("COMPLETE.json") for mark in marks]


def compile_jobs(world: World) -> list[str]:
    jobs = world.cluster.all("Job")
    return [job["metadata"]["name"] for job in jobs if job["metadata"]["labels"][names.COMPONENT_LABEL] == "compile"]


def price(more: int = 0) -> int:
    """Of TWO_ROUNDS with everything in the bucket, and of `more` compiles: what `specdecode run` shows and sends."""
    planned = plan_for(load_preset("rehearsal", overrides=TWO_ROUNDS["set"]), inventory=everything("rehearsal"))
    one = planned.experiment.deadlines.compile / 60 * planned.price_per_node_hour
    return math.ceil(make_bill(planned, PRICED).added + more * one)


@pytest.fixture
def later(world: World) -> World:
    """run-1 has compiled everything, and has ended."""
    world.run_through(request=TWO_ROUNDS)
    release.release(world.given("run-1"), world.rt)
    return world


def test_what_goes_while_a_run_waits_ends_it_before_the_node_is_taken_and_a_resumed_run_is_priced_anew(later):
    later.plan("run-2", {**TWO_ROUNDS, "accept_cost": price()})
    later.finish("StageModels", "run-2")
    gone = lose(later)
    with pytest.raises(CompileFailed, match="price has 0 of the compiles that the run needs now, 2") as caught:
        later.finish("AcquireCapacity", "run-2")
    assert later.replicas == 0 and all(folder in str(caught.value) for folder in gone)
    told = later.clean_up(caught.value, "run-2")
    assert "were in the bucket when the run was priced" in told.Cause and "Resume the run" in told.Cause
    assert later.rt.lease.read().claims == ()
    later.run_through("run-3", request={"resume": "run-2"})
    assert later.record("run-3").measured == (0, 1)


def test_what_goes_under_a_run_that_has_its_node_is_not_compiled_either(later):
    later.plan("run-2", {**TWO_ROUNDS, "accept_cost": price()})
    for step in ("StageModels", "AcquireCapacity", "StartCheck"):
        later.finish(step, "run-2")
    lose(later, 1)
    with pytest.raises(CompileFailed, match=r"price has 0 .* now, 1: .*\(0\.0/\w+\)"):
        later.finish("Compile", "run-2")
    assert compile_jobs(later) == []


def test_what_fits_into_what_needs_no_consent_is_compiled_again(later):
    later.plan("run-2", TWO_ROUNDS)
    for step in ("StageModels", "AcquireCapacity", "StartCheck"):
        later.finish(step, "run-2")
    lose(later)
    later.finish("Compile", "run-2")
    assert len(compile_jobs(later)) == 2


def test_each_time_counts_and_a_look_more_does_not(later):
    """One artifact more is paid for, and it goes twice."""
    later.plan("run-2", {**TWO_ROUNDS, "accept_cost": price(more=1)})
    for step in ("StageModels", "AcquireCapacity", "StartCheck"):
        later.finish(step, "run-2")
    lose(later, 1)
    for step in ("Compile", "Compile", "Serve", "Smoke", "Benchmark", "StopArms"):
        later.finish(step, "run-2")
    lose(later, 1)
    with pytest.raises(CompileFailed, match=r"price has 1 .* now, 2: "):
        later.finish("Compile", "run-2", wave=1)


def test_cpu_nodes_compile_what_was_priced_and_no_more(world):
    request = {"experiment": "rehearsal", "set": {"compile.on": "cpu"}}

    def ahead(run_id: str) -> None:
        while not compiling.compile_arms(world.given(run_id, ahead=True), world.rt).done:
            pass

    for run_id in ("run-1", "run-2"):
        world.plan(run_id, request)
        world.finish("StageModels", run_id)
        ahead(run_id)
    lose(world)
    before = compile_jobs(world)
    with pytest.raises(CompileFailed, match=r"price has 0 .* now, 2: "):
        ahead("run-2")
    assert compile_jobs(world) == before


def everything(name: str, **given) -> Inventory:
    experiment = load_preset(name, **given)
    return Inventory(prefixes=frozenset(needed_prefixes(experiment, plan_for(experiment, capacity=PRICED).engine)))


@pytest.mark.parametrize("name", [name for name in preset_names() if not name.startswith("rehearsal")])
def test_whoever_accepts_what_an_empty_bucket_would_cost_has_paid_for_each_compile_once_and_for_none_beyond(name):
    empty = plan_for(load_preset(name), capacity=PRICED)
    full = plan_for(load_preset(name), capacity=PRICED, inventory=everything(name))
    (missing, most), bill = (len(empty.timeline.to_compile), make_bill(empty, PRICED)), make_bill(full, PRICED)
    assert paid_compiles(empty, most, accepted=most.added) == {ON_CPU: 0, COMPILE: missing}
    assert paid_compiles(full, bill, accepted=bill.added) == {ON_CPU: 0, COMPILE: 0}
    more = paid_compiles(full, bill, accepted=most.added)[COMPILE]
    one = full.experiment.deadlines.compile / 60 * full.price_per_node_hour
    assert more >= missing and bill.added + more * one <= most.added


def test_a_node_that_is_paid_for_compiles_what_is_missing():
    experiment = load_preset("gpt-oss-120b-eagle3")
    block = PRICED.model_copy(update={"reservation": "cr-0123456789abcdef0"})
    plan = plan_for(experiment, capacity=block)
    assert paid_compiles(plan, make_bill(plan, block), accepted=None) == {ON_CPU: 0}
