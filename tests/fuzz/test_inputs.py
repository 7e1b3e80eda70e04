"""Inputs of executions and of the Lambda functions: a step's answer, or one of its typed errors."""

import json
import random
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from specdecode.steps import diagnose, plan, runtime, stop_arms
from specdecode.steps.errors import LONGEST, StepFailed
from specdecode.steps.plan import parse_request

from tests.fuzz.profile import RNGS, fuzz, soon
from tests.specdecode.steps.world import World, arn

TEXTS = [
    *("rehearsal", "qwen3-32b", "", " ", "..", "../../etc/passwd", "/", "a/b", "a\\b", "nul\x00", "\ud800", "é" * 90),
    *("x" * 300, "run-1", "$(touch x)", "=1+1", "\x1b[2J", "a\nb", "rehearsal.yaml", "workload.requests", "variants.0"),
]
VALUES: list[Any] = [None, True, 0, -1, 4, 10**30, 0.5, [], {}, ["x"], *TEXTS]
KEYS = ["experiment", "set", "resume", "Comment", "input", *TEXTS]


def value(rng: random.Random, depth: int = 0) -> Any:
    if depth < 3 and rng.random() < 0.4:
        return {rng.choice(KEYS): value(rng, depth + 1) for _ in range(rng.randrange(4))}
    return [value(rng, depth + 1)] if rng.random() < 0.05 else rng.choice(VALUES)


def request(rng: random.Random) -> Any:
    if rng.random() < 0.2:
        return value(rng)
    made = {}
    for key in rng.sample(["experiment", "set", "resume", "x"], rng.randrange(1, 3)):
        made[key] = value(rng, 1)
    if rng.random() < 0.3:
        made = {"experiment": "rehearsal", "set": {rng.choice(TEXTS): value(rng) for _ in range(2)}}
    return made


def step_input(**event: Any) -> runtime.StepInput:
    """What a Lambda function makes of an event."""
    seen: list[runtime.StepInput] = []

    def step(given_: runtime.StepInput, rt: runtime.Runtime) -> runtime.Progress:
        seen.append(given_)
        return runtime.Progress(done=True, message="")

    runtime.run_step(step, event, None)
    return seen[0]


def readable(error: StepFailed) -> None:
    text = str(error)
    text.encode("utf-8")
    assert 5 < len(text) <= LONGEST


@fuzz(40)
@given(RNGS)
def test_any_input_is_planned_or_refused(rng: random.Random) -> None:
    world = World()
    for number in range(3):
        run_id = f"run-{number}" if rng.random() < 0.8 else rng.choice(TEXTS)
        before = set(world.s3.objects)
        given_ = step_input(run_id=run_id, execution_arn=arn("x"), input=request(rng))
        run_id = given_.run_id
        with soon(10):
            try:
                plan.plan(given_, world.rt)
            except StepFailed as error:
                readable(error)
                assert set(world.s3.objects) == before, "refused before anything is written"
        assert all(key.startswith(f"runs/{run_id}/") for key in set(world.s3.objects) - before)


@fuzz(100)
@given(RNGS)
def test_requests_alone(rng: random.Random) -> None:
    for _ in range(10):
        try:
            parse_request(request(rng))
        except StepFailed as error:
            readable(error)


@fuzz(40)
@given(RNGS)
def test_any_event_is_a_steps_input_or_refused(rng: random.Random) -> None:
    event = {"run_id": rng.choice([*TEXTS, 5, None]), "wave": rng.choice([0, -1, "x", 10**30]), "input": value(rng)}
    event = event if rng.random() < 0.7 else {rng.choice([*event, "error"]): value(rng)}
    try:
        runtime.run_step(lambda given_, rt: runtime.Progress(done=True, message=given_.run_id), event, None)
    except StepFailed as error:
        readable(error)


@fuzz(40)
@given(RNGS)
def test_a_diagnosis_is_made_of_any_error(rng: random.Random) -> None:
    long = json.dumps({"errorMessage": "a\ud800\n" * 20_000})
    cause = rng.choice([value(rng), json.dumps({"errorMessage": value(rng)}), "[" * 3000, "x" * 100_000, long])
    error = rng.choice([None, {}, {"Error": value(rng), "Cause": cause}, {"Cause": cause}])
    world = World()
    with soon(10):
        found = diagnose.diagnose(step_input(run_id="run-1", error=error), world.rt)
    assert len(found.Cause) < 32_768
    found.model_dump_json().encode()
    assert all(key.startswith("runs/run-1/diagnostics/") for key in world.s3.objects)


@fuzz(30)
@given(st.sampled_from([text for text in TEXTS if text != "run-1"]))
def test_stopping_any_run_touches_no_other(run_id: str) -> None:
    world, before = served()
    stop_arms.stop_arms(step_input(run_id=run_id), world.rt)
    assert len(world.cluster.objects) == before


@cache
def served() -> tuple[World, int]:
    world = World()
    world.run_through(until="Serve")
    return world, len(world.cluster.objects)
