"""Serving settings and lengths of answers as sweeps: what a list writes out, what is refused, what is planned."""

import shlex
from typing import Any

import pytest
from specdecode.experiment import Capacity, ExperimentError, engine_of, load_preset
from specdecode.experiment.workload import MOST_AT_A_TIME, Level
from specdecode.manifests.serve_command import serve_words
from specdecode.planning import Inventory
from specdecode.planning.several_nodes import plan_parts

from tests.plans import plan_for

SEQS = {"serving.max_num_seqs": [1, 2, 4]}


def words_of(command: list[str], flag: str) -> str:
    words = shlex.split(" ".join(command))
    return words[words.index(flag) + 1]


def problems(preset: str, overrides: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ExperimentError) as refused:
        load_preset(preset, overrides=overrides)
    return {each.field: each.message for each in refused.value.problems}


def test_a_list_in_serving_measures_every_arm_at_each_value_beside_a_baseline_of_its_own() -> None:
    found = load_preset("rehearsal", overrides=SEQS | {"workload.rounds": 1})
    assert [(each.name, each.label, each.compare_to) for each in found.variants] == [
        (f"{arm}-seqs{size}", f"{label}-seqs{size}", base and f"base-seqs{size}")
        for size in (1, 2, 4)
        for arm, label, base in (("base", "Base", None), ("sd", "SD", "base"))
    ]
    plan = plan_for(found)
    assert [[arm.variant for arm in wave.arms] for wave in plan.waves[:3]] == [
        [f"base-seqs{size}", f"sd-seqs{size}"] for size in (1, 2, 4)
    ], "arms that are compared are on the node together"
    assert len({item.fingerprint for item in plan.artifacts}) == 6
    for size, arm in ((1, "sd-seqs1"), (4, "base-seqs4")):
        command = serve_words(plan.served, plan.served.variant(arm), plan.engine, compiled=True)
        assert words_of(command, "--max-num-seqs") == str(size)


def test_a_value_that_was_measured_before_is_the_same_artifact() -> None:
    alone, engine = load_preset("rehearsal"), engine_of(load_preset("rehearsal"))
    made = {item.arm.variant: item.fingerprint for item in plan_for(alone).artifacts}
    artifacts = plan_for(load_preset("rehearsal", overrides=SEQS)).artifacts
    swept = {item.arm.variant: item.fingerprint for item in artifacts}
    assert (swept["base-seqs4"], swept["sd-seqs4"]) == (made["base"], made["sd"]) and engine.artifact


def test_several_settings_multiply_and_a_sweep_over_k_stays_one() -> None:
    both = load_preset("rehearsal-vllm", overrides=SEQS | {"serving.max_model_len": [512, 1024]})
    assert len(both.variants) == 12 and both.variants[0].name == "base-seqs1-len512"
    assert (both.window, both.batch) == (512, 1), "what fits into every arm"
    grid = load_preset("rehearsal-sweep", overrides=SEQS | {"sweep": "grid"})
    assert len(grid.variants) == 15 and grid.variant("sd-k6-seqs2").k == 6


def test_time_is_planned_for_the_queue_of_a_small_batch() -> None:
    def hours(size: object) -> float:
        overrides = {"serving.max_num_seqs": size, "workload.concurrency": 4, "start_check": False}
        return sum(part.node_hours.high for part in plan_for(load_preset("rehearsal", overrides=overrides)).parts)

    sizes = [hours(size) for size in (1, 2, 4)]
    assert sizes[0] == pytest.approx(4 * sizes[2]) and hours([1, 2, 4]) == pytest.approx(sum(sizes))


def test_each_node_of_several_measures_a_baseline_at_the_setting_of_its_arms() -> None:
    overrides = SEQS | {"sweep": "grid"}
    found = load_preset("qwen3-32b-tuning", overrides={**overrides, "variants.1.sweep.num_speculative_tokens": [5, 7]})
    for part in plan_parts(found, 3, inventory=Inventory(), capacity=Capacity()):
        assert {part.plan.experiment.variant(name).compare_to for name in part.arms} <= {
            arm.variant for wave in part.plan.waves for arm in wave.arms
        }


def test_all_that_is_wrong_is_said_at_once() -> None:
    serving = {"serving.max_num_seqs": [0, 2], "serving.tensor_parallel_size": [32, 64]}
    found = problems("rehearsal", serving | {"workload.output_tokens": [32, 2000], "workload.cases": ["count"]})
    assert "must be 1 or more, not 0" in found["variants.sd-seqs0-tp32.max_num_seqs"]
    assert "are 32 logical cores, not 64" in found["variants.base-seqs2-tp64.tensor_parallel_size"]
    assert "max_model_len is 1024" in found["workload.cases.count-out2000"]
    assert "must be a whole number" in problems("rehearsal", {"serving.max_num_seqs": []})["serving.max_num_seqs"]
    assert "64 variants" in problems("rehearsal", {"serving.max_num_seqs": list(range(1, 40))})["serving"]
    assert "one baseline" in problems("rehearsal-sweep", SEQS)["sweep"]


def test_a_list_of_lengths_measures_every_case_at_each() -> None:
    own = {"name": "own", "label": "own", "kind": "text", "text": "hi", "structured": None, "output_tokens": 8}
    found = load_preset("rehearsal", overrides={"workload.cases": ["count", own], "workload.output_tokens": [32, 256]})
    lengths = {case.name: found.workload.output_tokens_of(case) for case in found.workload.cases}
    assert lengths == {"count-out32": 32, "count-out256": 256, "own": 8}, "a case with a length of its own keeps it"
    assert found.workload.output_tokens == 256
    assert [case.label for case in found.workload.cases][:2] == [f"Count_from_1_to_200-out{n}" for n in (32, 256)]
    bad = problems("rehearsal", {"workload.cases": ["count"], "workload.output_tokens": [32, "a"]})
    assert "must be a whole number" in bad["workload.cases.count-outa.output_tokens"]


def test_names_in_cloudwatch_are_by_letter_in_the_order_of_loads() -> None:
    at_a_time = [1, 2, 8, 16, 128, MOST_AT_A_TIME]
    rates = [0.25, 0.5, 1.5, 2, 16, 100]
    for levels in ([Level(concurrency=each) for each in at_a_time], [Level(rate=each) for each in rates]):
        names = [level.sorted_name for level in levels]
        assert names == sorted(names) and len(set(names)) == len(levels)
    assert (Level(concurrency=8).sorted_name, Level(rate=0.5).sorted_name) == ("c0008", "r0000.5")
    assert (Level(concurrency=8).name, Level(rate=0.5).name) == ("c8", "r0.5"), "files keep theirs"
