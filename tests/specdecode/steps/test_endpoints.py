"""A run on servers that already run: it holds no node, takes its turn, and reports what is not known."""

import json

import pytest
from specdecode import s3_keys
from specdecode.steps import acquire, inspect, plan, release, report, smoke, watchdog
from specdecode.steps import compile as compiling
from specdecode.steps.errors import LeaseLost

from tests.specdecode.steps.test_report import record
from tests.specdecode.steps.world import WAITING, World, arn

DOCUMENT = {
    "name": "chat",
    "title": "Two servers",
    "target": {"id": "Qwen/Qwen3-32B"},
    "variants": [
        {"name": "base", "label": "Base", "endpoint": "https://chat.example", "price_per_hour": 36.0},
        {"name": "sd", "label": "SD", "compare_to": "base", "endpoint": "https://sd.example", "price_per_hour": 72.0},
    ],
    "workload": {"cases": ["count"], "input_tokens": 64, "output_tokens": 100, "requests": 8},
}
NOTHING_TO_DO = ("StageModels", "Compile", "Serve", "Accuracy")


def turn(world, run_id):
    return acquire.acquire(world.given(run_id), world.rt)


@pytest.fixture
def world():
    return World()


def begin(world, run_id="run-1", document=DOCUMENT):
    world.states.executions[arn(run_id)] = "RUNNING"
    return plan.plan(world.given(run_id, input={"experiment": document}), world.rt)


def test_it_needs_no_node_and_leaves_nothing(world):
    begin(world)
    assert compiling.compile_arms(world.given("run-1", ahead=True), world.rt).done
    for step in WAITING:
        looks = world.finish(step)
        assert len(looks) == 1 or step not in NOTHING_TO_DO
        assert world.replicas == 0 and not world.cluster.all("Deployment")
    release.release(world.given("run-1"), world.rt)
    assert world.rt.queue.read().claims == world.rt.lease.read().claims == ()
    assert world.workloads() == []
    state = world.record()
    assert (state.measured, state.held_since, state.node) == ((0,), None, None)


def test_a_capacity_block_that_is_over_does_not_matter(world):
    ended = {"block_start": "2026-01-01T00:00:00Z", "block_end": "2026-01-02T00:00:00Z"}
    world.rt.environ = {**world.rt.environ, "CAPACITY": json.dumps(ended)}
    assert begin(world).waves == 1


def test_two_such_runs_wait_for_each_other_and_not_for_the_node(world):
    world.run_through("node-run", until="Serve", request={"experiment": "rehearsal", "set": {"workload.rounds": 1}})
    begin(world)
    begin(world, "run-2")
    assert turn(world, "run-1").done
    second = turn(world, "run-2")
    assert not second.done and second.message == "number 1 in the queue; held by run-1"
    with pytest.raises(
        LeaseLost, match="run-2 no longer holds its place at servers that already run; held now by run-1"
    ):
        smoke.smoke(world.given("run-2"), world.rt)
    assert inspect.cluster_view(world.given("inspect"), world.rt).turns.position("run-2") == 1
    release.release(world.given("run-1"), world.rt)
    assert turn(world, "run-2").done
    assert world.rt.lease.read().held_by("node-run") and world.replicas == 1


def test_the_watchdog_alone_ends_a_turn(world):
    begin(world)
    begin(world, "run-2")
    for run_id in ("run-1", "run-2"):
        turn(world, run_id)
    smoke.smoke(world.given("run-1"), world.rt)
    world.states.executions[arn("run-1")] = "ABORTED"
    assert watchdog.watch(world.given("watchdog"), world.rt).ended == ("run-1",)
    assert world.rt.queue.read().held_by("run-2")
    assert world.workloads() == []


def test_the_report_has_the_servers_prices_and_says_what_is_not_known(world):
    begin(world)
    for index in range(8):
        for variant, seconds in (("base", 2.0), ("sd", 0.5)):
            key = s3_keys.run_key("run-1", "raw", variant, "count.jsonl")
            line = record(variant, "count", index, seconds).model_dump_json().encode() + b"\n"
            world.s3.objects[key] = world.s3.objects.get(key, b"") + line
    report.report(world.given("run-1"), world.rt)
    found = json.loads(world.s3.objects[s3_keys.run_key("run-1", "report.json")])
    assert found["cost"] is None and found["context"]["capacity_type"] == "none"
    assert "engine image" not in found["context"]["versions"]
    cost = {arm["variant"]: arm["cost_per_million"] for arm in found["arms"]}
    tokens = {arm["variant"]: arm["output_tokens"] for arm in found["arms"]}
    first_to_last = 70.0  # a request every ten seconds: what the server costs in between is paid as well
    assert cost["base"] == pytest.approx(36 / 3600 * (first_to_last + 2.0) / tokens["base"] * 1e6, rel=2e-3)
    assert cost["sd"] == pytest.approx(72 / 3600 * (first_to_last + 0.5) / tokens["sd"] * 1e6, rel=2e-3)
    page = world.s3.objects[s3_keys.run_key("run-1", "report.html")].decode()
    assert "servers that already ran" in page and "https://sd.example, which ran already" in page
    assert "1M output tokens cost" in page and "price per hour / 3600" in page
    for untrue in ("node-hour", "0.9.1-sdk2.26.1", "devices,"):
        assert untrue not in page, untrue
