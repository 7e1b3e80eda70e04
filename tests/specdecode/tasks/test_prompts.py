"""Plan looks at the sets that the bucket holds before anything is created, and keeps them with the run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from specdecode.prompts import digest
from specdecode.tasks.errors import InvalidExperiment

from tests.specdecode.tasks.world import World

ROWS = (
    {"id": "short", "category": "triage", "turns": ["Which team?"]},
    {"id": "novel", "category": "novels", "turns": ["word " * 2000]},
)
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
KEY = f"prompts/tickets@{digest(DATA)}.jsonl"


def request(*categories: str, sha: str = digest(DATA)) -> dict[str, Any]:
    prompts = [{"set": f"tickets@{sha}", "categories": list(categories)}]
    return {"experiment": {"extends": "rehearsal", "name": "own", "workload": {"prompts": prompts}}}


def refused(world: World, asked: dict[str, Any]) -> str:
    with pytest.raises(InvalidExperiment) as error:
        world.plan(request=asked)
    assert not [key for key in world.s3.objects if key.startswith("runs/run-1/prompts/")]
    return str(error.value)


def test_a_set_of_the_bucket_is_copied_into_the_runs_folder() -> None:
    world = World()
    world.s3.objects[KEY] = DATA
    world.plan(request=request("triage"))
    assert world.s3.objects[f"runs/run-1/{KEY}"] == DATA


def test_what_is_wrong_with_a_set_is_said_before_anything_is_created() -> None:
    world = World()
    assert "is not there: `specdecode prompts add FILE`" in refused(world, request("triage"))
    world.s3.objects[KEY] = DATA
    assert "its categories: triage, novels" in refused(world, request("cooking"))
    said = refused(world, request("triage", "novels"))
    assert "workload.cases.novels: novel has at least 2000 tokens, with 64 for the answer 2064: max_model_len" in said
    assert "workload.cases.triage" not in said
    world.s3.objects[KEY] = DATA + b"\n"
    assert "has the SHA-256" in refused(world, request("triage"))
    world.s3.objects[KEY] = b"{"
    assert "line 1" in refused(world, request("triage"))
