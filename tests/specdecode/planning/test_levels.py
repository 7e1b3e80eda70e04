"""Several loads in a plan: within the pipeline's limits, whatever their number."""

import pytest
from specdecode.experiment import load_preset
from specdecode.experiment.documents import MAX_JSON_BYTES

from tests.plans import plan_for

HISTORY = 25_000
"""Events of one execution (Step Functions, service quotas)."""


def test_six_loads_of_ten_cases_and_22_arms_stay_within_the_pipelines_limits() -> None:
    cases = [case.name for case in load_preset("qwen3-32b").workload.cases if case.group == "sample"]
    overrides = {"sweep": "grid", "workload.cases": cases, "workload.rounds": 1}
    one = plan_for(load_preset("qwen3-32b-tuning", overrides=overrides))
    levels = {"workload.concurrency": [1, 2, 4, 8, 16, 32]}
    six = plan_for(load_preset("qwen3-32b-tuning", overrides={**overrides, **levels}))
    assert len(cases) == 10 and len(six.experiment.variants) == 23 and len(six.levels) == 6
    assert len(six.steps) == len(one.steps), "a load adds no state: a wave is one Job"
    assert max(six.worst_case_events, one.worst_case_events) < HISTORY
    assert len(six.experiment.model_dump_json()) < MAX_JSON_BYTES // 2
    assert len(six.model_dump_json()) < MAX_JSON_BYTES


PADS = "pads a batch to {}, so a speed-up may jump just above each; {} would show it"


NATIVE, LOAD = ("qwen3-32b-native", {"serving.max_num_seqs": 8}), ("qwen3-32b-load", {})
BUCKETS = {"serving.neuron_config.num_seqs_buckets": [2, 8]}
BATCHES = {"serving.neuron_config.token_generation_batches": [4]}


@pytest.mark.parametrize(
    ("preset", "more", "levels", "said"),
    [
        (NATIVE, {"serving.max_num_seqs": 12}, [1, 4, 16], PADS.format("1, 2, 4, 8, 12", "2, 3, 5, 8, 9, 12")),
        (NATIVE, {}, [1, 2, 3, 4, 5, 8], ""),
        (NATIVE, {}, [8], ""),
        (NATIVE, BUCKETS, [1, 8], PADS.format("2, 8", "2, 3")),
        (LOAD, {}, [1, 2, 16], ""),
        (LOAD, BATCHES, [1, 16], PADS.format("4, 16", "4, 5")),
        (("rehearsal-load", {}), {}, [1, 32], ""),
    ],
)
def test_levels_are_proposed_at_compiled_batch_sizes_and_just_above(
    preset: tuple[str, dict[str, object]], more: dict[str, object], levels: list[int], said: str
) -> None:
    """Between two of them an engine pads, so that the time of a step jumps."""
    plan = plan_for(load_preset(preset[0], overrides={**preset[1], **more, "workload.concurrency": levels}))
    found = [warning for warning in plan.warnings if "pads a batch" in warning]
    assert [said in warning for warning in found] == ([True] if said else [])
