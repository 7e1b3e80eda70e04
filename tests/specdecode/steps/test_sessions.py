"""The pods' sessions of AWS: made with their Job, renewed by its step's looks, and told apart when AWS refuses."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError
from specdecode import names
from specdecode.steps import benchmark, stage
from specdecode.steps.errors import AccessRefused

from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.world import World


def benchmarking() -> World:
    """A world whose benchmark runs and does not end."""
    world = World()
    long = {"experiment": "rehearsal", "set": {"deadlines.benchmark": 600, "workload.rounds": 1}, "accept_cost": 5000}
    world.run_through(until="Smoke", request=long)
    world.trouble["benchmark"] = lambda pod: None
    world.sts.asked.clear()
    world.rt.sessions.clear()
    return world


def look(world: World, *, after_min: float = 1) -> None:
    world.time += timedelta(minutes=after_min)
    benchmark.benchmark(world.given("run-1"), world.rt)


def session(world: World, component: str = "benchmark") -> dict:
    (secret,) = [
        obj
        for obj in world.cluster.all("Secret")
        if obj["metadata"]["labels"][names.COMPONENT_LABEL] == component and "credentials.json" in obj["data"]
    ]
    assert secret["metadata"]["ownerReferences"][0]["kind"] == "ConfigMap", "it goes with the run"
    return json.loads(base64.b64decode(secret["data"]["credentials.json"]))


def minutes_left(world: World) -> float:
    until = datetime.strptime(session(world)["Expiration"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return (until - world.time).total_seconds() / 60


def test_every_job_of_a_run_has_a_session_before_it_has_a_pod(world):
    made: list[str] = []
    put = world.cluster.put
    world.cluster.put = lambda obj: made.append(f"{obj['kind']} {obj['metadata']['name']}") or put(obj)
    world.run_through(until="Accuracy")
    jobs = [name for name in made if name.startswith("Job ")]
    assert len(jobs) >= 5
    for name in jobs:
        assert made.index(name.replace("Job", "Secret")) < made.index(name)
    assert {asked["name"] for asked in world.sts.asked} == {name.partition(" ")[2] for name in jobs}


def test_a_session_never_has_less_than_half_an_hour_while_its_step_looks():
    world = benchmarking()
    left = []
    for _ in range(300):
        look(world)
        left.append(minutes_left(world))
    assert 30 < min(left) <= max(left) <= 60
    assert len(world.sts.asked) == pytest.approx(300 / 25, abs=1), "twice an hour, not at every look"


def test_a_function_that_starts_cold_renews_at_once():
    world = benchmarking()
    look(world)
    world.rt.sessions.clear()
    look(world)
    assert len(world.sts.asked) == 2


def test_what_aws_cannot_do_now_is_left_to_the_next_look_while_the_session_lasts():
    world = benchmarking()
    look(world)

    def throttled() -> None:
        raise client_error("Throttling", "AssumeRole")

    world.sts.before = throttled
    for _ in range(58):
        look(world)
    assert 0 < minutes_left(world) < 3
    with pytest.raises(ClientError, match="Throttling"):
        look(world, after_min=3)
    world.sts.before = lambda: None
    look(world)
    assert minutes_left(world) == 60


@pytest.mark.parametrize("renewing", [False, True])
def test_a_refusal_ends_the_run_and_says_what_to_do(renewing):
    world = benchmarking()
    if renewing:
        look(world)
        world.time += timedelta(minutes=40)

    def refuse() -> None:
        raise client_error("AccessDenied", "AssumeRole", 403)

    world.sts.before = refuse
    with pytest.raises(AccessRefused, match=r"no session of arn:aws:iam::.*AccessDenied.*Deploy SpecDecodeStack again"):
        look(world)


def test_a_job_that_is_made_again_gets_a_new_session_in_the_old_secret():
    world = benchmarking()
    look(world)
    first = session(world)["AccessKeyId"]
    (job,) = [obj for obj in world.cluster.all("Job") if obj["metadata"]["name"].endswith("-benchmark")]
    world.cluster.remove("Job", job["metadata"]["name"])
    look(world, after_min=90)
    assert session(world)["AccessKeyId"] != first and minutes_left(world) == 60


def test_staging_several_models_gives_each_pod_its_own_folder(world):
    world.trouble["staging"] = lambda pod: None
    world.plan(request={"experiment": "qwen3-32b"})
    stage.stage(world.given("run-1"), world.rt)
    written = [
        statement["Resource"]
        for asked in world.sts.asked
        for statement in asked["policy"]["Statement"]
        if "s3:PutObject" in statement["Action"]
    ]
    assert len(written) == 2 and all(len(keys) == 1 for keys in written)
    assert len({keys[0] for keys in written}) == 2


def test_nobody_reads_a_secret_to_renew_it():
    world = benchmarking()
    for _ in range(40):
        look(world)
    touched = {method for method, path in world.cluster.requests if "/secrets" in path}
    assert touched == {"POST", "PUT"}
