"""The start check: what it starts, when it ends, what it leaves, and when it is not made."""

import json
import re
from datetime import timedelta

import pytest
from specdecode import names, s3_keys
from specdecode.experiment import Capacity
from specdecode.manifests import all_objects
from specdecode.steps import compile as compiling
from specdecode.steps.errors import StartCheckFailed
from specdecode.steps.run import load_run, render_context

from tests.specdecode.steps.world import WAITING, World

REQUEST = {"experiment": "rehearsal", "set": {"workload.rounds": 1}}
WHOLE_NODE = REQUEST | {"set": REQUEST["set"] | {"serving.devices": 16, "serving.tensor_parallel_size": 64}}


def checks(world: World) -> list[str]:
    jobs = (job["metadata"]["labels"] for job in world.cluster.all("Job"))
    return sorted(job[names.VARIANT_LABEL] for job in jobs if job[names.COMPONENT_LABEL] == "start-check")


def at_the_check(world: World, request=REQUEST, run_id: str = "run-1") -> None:
    world.run_through(run_id, until="AcquireCapacity", request=request)


def test_arms_that_fit_together_start_together_and_the_last_line_says_what_it_cost(world):
    at_the_check(world)
    world.trouble["start-check"] = lambda pod: None  # it goes on
    first = compiling.compile_arms(world.given("run-1", start_check=True), world.rt)
    assert not first.done and checks(world) == ["base", "sd"]
    world.time += timedelta(minutes=6)
    world.trouble.clear()
    last = world.finish("StartCheck")[-1]
    assert last.message == "base and sd started with a tiny model: 6.0 min of the node, $3.58"
    state = world.record()
    assert state.start_check_minutes == 6
    assert not [key for key in world.s3.objects if key.startswith("compiled/")]
    world.time += timedelta(hours=1)
    assert world.finish("StartCheck")[-1].message == last.message, "asked again, it says the same"


def test_arms_that_need_the_whole_node_start_one_after_the_other(world):
    at_the_check(world, WHOLE_NODE)
    world.trouble["start-check"] = lambda pod: None
    assert not WAITING["StartCheck"](world.given("run-1"), world.rt).done
    assert checks(world) == ["base"]
    world.trouble.clear()
    world.finish("StartCheck")
    assert checks(world) == ["base", "sd"]


def test_an_arm_that_does_not_start_ends_the_run_before_anything_is_compiled(world):
    at_the_check(world)
    world.job_fails["start-check"] = 71
    with pytest.raises(StartCheckFailed, match=r"^base: .*failed") as raised:
        world.finish("StartCheck")
    assert world.clean_up(raised.value).Error == "StartCheckFailed"
    assert (world.replicas, world.rt.lease.read().claims, world.workloads()) == (0, (), [])
    assert not [key for key in world.s3.objects if key.startswith(("compiled/", s3_keys.ENGINES))]
    assert any("run-1/diagnostics/" in key for key in world.s3.objects)


def test_a_node_with_a_device_less_is_given_back_at_once():
    world = World(devices=15)
    at_the_check(world)
    with pytest.raises(StartCheckFailed, match="offers 15 Neuron devices, and the arms need 16"):
        world.finish("StartCheck")
    assert checks(world) == []


def test_an_arm_that_hangs_ends_the_run_at_the_deadline_of_its_group(world):
    at_the_check(world)
    world.trouble["start-check"] = lambda pod: None
    began = world.time
    with pytest.raises(StartCheckFailed, match="did not finish within 5 min"):
        world.finish("StartCheck")
    assert world.time - began <= timedelta(minutes=6)


def test_what_was_served_once_is_not_checked_again_and_other_kinds_are(world):
    at_the_check(world)
    for step in ("StartCheck", "Compile", "Serve", "Smoke"):
        assert not [key for key in world.s3.objects if key.startswith(s3_keys.ENGINES)]
        world.finish(step)
    marks = [key for key in world.s3.objects if key.startswith(s3_keys.ENGINES)]
    assert len(marks) == 2
    for name, request in (("k=3", {"variants.1.speculation.num_speculative_tokens": 3}), ("same", {})):
        world.plan(name.replace("=", ""), REQUEST | {"set": REQUEST["set"] | request})
        assert load_run(world.rt.store, name.replace("=", "")).plan.start_checks == (), name
    del world.s3.objects[marks[0]]
    world.plan("run-3", REQUEST)
    assert len(load_run(world.rt.store, "run-3").plan.start_checks) == 1
    world.plan("run-4", REQUEST | {"set": {"start_check": False}})
    assert load_run(world.rt.store, "run-4").plan.start_checks == ()


def test_pods_claim_by_the_template_that_the_deployment_made(world: World) -> None:
    """Settings of the claims make templates with other names."""
    known = Capacity.model_validate_json(world.rt.environ["CAPACITY"]).model_copy(update={"claims": "-driver-2.29"})
    world.rt.environ = {**world.rt.environ, "CAPACITY": known.model_dump_json()}
    world.plan()
    run = load_run(world.rt.store, "run-1")
    objects = json.dumps(all_objects(run.plan, render_context(run, world.rt)))
    assert set(re.findall(r'"resourceClaimTemplateName": "(.*?)"', objects)) == {"trn2-8dev-lnc2-driver-2.29"}
