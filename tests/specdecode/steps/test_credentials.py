"""What a step does with a token in the execution's input: it says where, never what, and stores nothing."""

import pytest
from specdecode.steps.errors import InvalidExperiment
from specdecode.steps.plan import plan
from specdecode.steps.runtime import StepInput

from tests.canaries import CANARIES, WORD
from tests.specdecode.steps.world import World


@pytest.mark.parametrize(
    "given",
    [
        {"experiment": "CANARY"},
        {"experiment": {"extends": "rehearsal", "description": "CANARY"}},
        {"experiment": "rehearsal", "set": {"title": "CANARY"}},
        {"experiment": "rehearsal", "set": {"CANARY": 1}},
        {"resume": "CANARY"},
        {"CANARY": 1},
        ["CANARY"],
        "CANARY",
    ],
)
@pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES.keys())
def test_a_run_with_a_credential_in_its_input_is_refused(world, given, canary):
    with pytest.raises(InvalidExperiment) as caught:
        plan(StepInput(run_id="r", input=_planted(given, canary)), world.rt)
    assert WORD not in str(caught.value)
    assert "looks like a credential" in str(caught.value)
    assert not [key for key in world.s3.objects if key.startswith("runs/")]


def test_an_input_that_is_too_deep_is_refused():
    deep = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(InvalidExperiment, match="nested deeper"):
        plan(StepInput.model_construct(run_id="r", input=deep), World().rt)


def _planted(value, canary):
    if isinstance(value, dict):
        return {_planted(key, canary): _planted(item, canary) for key, item in value.items()}
    if isinstance(value, list):
        return [_planted(item, canary) for item in value]
    return canary if value == "CANARY" else value
