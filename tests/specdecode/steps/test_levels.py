"""Six loads of ten cases and 22 speculating arms through the steps: what goes through the state machine stays small."""

import json
from typing import Any

from pydantic import BaseModel
from specdecode.experiment import load_preset
from specdecode.planning.events import HISTORY_LIMIT
from specdecode.runs.state import PLAN
from specdecode.steps import plan
from specdecode.steps.runtime import Progress

from tests.specdecode.steps import world as worlds
from tests.specdecode.steps.world import World

MOST_PAYLOAD = 256 * 1024
"""Bytes of a state's input or output (Step Functions, service quotas)."""
MOST_OBJECT = 1024 * 1024
"""Bytes of a ConfigMap's or Secret's data (Kubernetes)."""
LOADS = [1, 2, 4, 8, 16, 32]
CASES = [case.name for case in load_preset("qwen3-32b").workload.cases if case.group == "sample"]


def request(levels: list[int]) -> dict[str, Any]:
    changes = {"sweep": "grid", "workload.cases": CASES, "workload.rounds": 1, "workload.concurrency": levels}
    return {"experiment": "qwen3-32b-tuning", "set": changes, "accept_cost": 10_000}


class Weighed(World):
    """A world that weighs what each step hands to the state machine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sizes: dict[str, int] = {}

    def weigh(self, step: str, answer: BaseModel) -> None:
        self.sizes[step] = max(self.sizes.get(step, 0), len(answer.model_dump_json().encode()))

    def finish(self, step: str, run_id: str = "run-1", wave: int = 0) -> list[Progress]:
        seen = super().finish(step, run_id, wave)
        for answer in seen:
            self.weigh(step, answer)
        return seen


def through(levels: list[int]) -> Weighed:
    world = Weighed()
    world.run_through(request=request(levels))
    world.weigh("Plan", plan.plan(world.given("run-2", input=request(levels)), world.rt))
    return world


def test_no_step_hands_the_state_machine_more_for_six_loads_than_for_one() -> None:
    six, one = through(LOADS), through([1])
    assert set(six.sizes) == {"Plan", *worlds.WAITING}, "every step was weighed"
    assert {**six.sizes, "Plan": 0} == {**one.sizes, "Plan": 0}, (
        "but Plan, which repeats the plan's warnings, none grows"
    )
    assert max(six.sizes.values()) < MOST_PAYLOAD // 100
    stored = json.loads(six.s3.objects[f"runs/run-1/{PLAN}"])
    assert len(stored["experiment"]["variants"]) == 23 and len(CASES) == 10
    assert stored["experiment"]["workload"]["concurrency"] == LOADS
    assert stored["worst_case_events"] < HISTORY_LIMIT
    assert len({wave["index"] for wave in stored["waves"]}) == 12


def test_an_experiment_of_that_size_fits_into_the_executions_input_and_its_benchmark_into_an_object(
    world: World,
) -> None:
    made = load_preset("qwen3-32b-tuning", overrides=request(LOADS)["set"])
    inline = {"experiment": made.model_dump(mode="json", exclude_defaults=True), "accept_cost": 10_000}
    assert len(json.dumps(inline).encode()) < MOST_PAYLOAD // 2
    world.run_through(request=request(LOADS), until="Benchmark")
    weights = {
        f"{kind}/{found['metadata']['name']}": len(json.dumps(found).encode())
        for kind in ("ConfigMap", "Secret", "Job")
        for found in world.cluster.all(kind)
    }
    assert any("benchmark" in name for name in weights), weights
    assert max(weights.values()) < MOST_OBJECT // 4, weights
