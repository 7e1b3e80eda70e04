"""What a plan and `validate` warn of: too few requests, levels that are missing, the end of support, arms that differ
in more than speculation; and that several loads stay within the pipeline's limits.
"""

import json
from typing import Any

import pytest
from specdecode.cli import app
from specdecode.experiment import engine_names, load_engine, load_preset, preset_names
from specdecode.experiment.documents import MAX_JSON_BYTES
from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.planning.warnings import check_bursts, check_requests
from typer.testing import CliRunner

from tests.plans import PRICED, plan_for


def doubts(experiment: Experiment) -> list[str]:
    assert isinstance(experiment, ServedExperiment)
    return [*check_requests(experiment), *check_bursts(experiment, load_engine(experiment.engine))]


def said(**overrides: Any) -> list[str]:
    given = {"workload.cases": ["repeat-line", "meaning-of-life"], "workload.requests": 12, **overrides}
    given = {key.replace("__", "."): value for key, value in given.items()}
    experiment = load_preset("rehearsal", overrides=given)
    found = doubts(experiment)
    assert set(found) <= set(plan_for(experiment).warnings), "the plan says the same"
    return found


def test_no_preset_is_warned() -> None:
    for name in preset_names():
        assert not doubts(load_preset(name)), name
    assert said(workload__requests=1) == [
        "one request of repeat-line, meaning-of-life: no speed-up can be judged from one prompt, send two or more"
    ]
    assert said(workload__requests=2) == []


def test_a_rate_whose_requests_are_sent_at_once_is_named_with_what_it_needs() -> None:
    """An answer of 48 tokens takes up to 48 x 4 ms, and the prompt its own time: twice that must be sent."""
    slow = {"workload__output_tokens": 48, "workload__input_tokens": 100}
    (line,) = said(workload__rate=[1, 64], **slow)
    assert line.startswith("workload.rate 64: an answer may take 0.")
    needed = int(line.split("raise workload.requests to ")[1].split(" at 64 requests a second")[0])
    assert 2 * 64 * 48 * 0.004 < needed < 2 * 64 * (48 * 0.004 + 0.2)
    assert said(workload__rate=[1, 64], **slow, **{"workload__requests": needed}) == []
    assert len(said(workload__rate=[1, 64], **slow, **{"workload__requests": needed - 1})) == 1
    assert said(workload__concurrency=[1, 8], **slow) == [], "a closed loop keeps its load by itself"


@pytest.mark.parametrize(
    ("share", "requests", "told"), [(0.95, 10, 0), (0.95, 9, 1), (0.9, 5, 0), (0.9, 4, 1), (1, 4, 0)]
)
def test_an_objective_that_one_late_request_decides_is_named(share: float, requests: int, told: int) -> None:
    """Of two prompt types in one round: twice the requests. Who asks for all of them knows."""
    found = said(
        workload__requests=requests,
        workload__concurrency=[1, 2],
        workload__rounds=1,
        workload__slo={"tpot_s": 0.02, "share": share},
    )
    assert len(found) == told
    if found:
        assert (
            f"workload.slo.share {share:g} with {2 * requests} requests of an arm at 1 at a time, 2 at a time"
            in found[0]
        )
        assert f"send {20 if share == 0.95 else 10} or more" in found[0]


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
        (NATIVE, {}, [1, 2, 3, 4, 5, 8], ""), (NATIVE, {}, [8], ""),
        (NATIVE, BUCKETS, [1, 8], PADS.format("2, 8", "2, 3")), (LOAD, {}, [1, 2, 16], ""),
        (LOAD, BATCHES, [1, 16], PADS.format("4, 16", "4, 5")), (("rehearsal-load", {}), {}, [1, 32], ""),
    ],
)  # fmt: skip
def test_levels_are_proposed_at_compiled_batch_sizes_and_just_above(
    preset: tuple[str, dict[str, object]], more: dict[str, object], levels: list[int], said: str
) -> None:
    """Between two of them an engine pads, so that the time of a step jumps."""
    plan = plan_for(load_preset(preset[0], overrides={**preset[1], **more, "workload.concurrency": levels}))
    found = [warning for warning in plan.warnings if "pads a batch" in warning]
    assert [said in warning for warning in found] == ([True] if said else [])


def warnings(preset, **overrides):
    return plan_for(load_preset(preset, overrides=overrides), capacity=PRICED).warnings


@pytest.mark.parametrize("name", engine_names())
def test_an_end_of_support_has_a_date_and_a_successor_that_is_there(name):
    support = load_engine(name).support
    assert (support is not None) == (name in ("0.9.1-sdk2.26.1", "0.16.0-sdk2.31.1"))
    if support:
        successor = load_engine(support.successor)
        assert successor.support is None, "who moves does not move twice"
        assert support.ended is None or support.announced <= support.ended


def test_plan_validate_and_engines_say_it():
    said = [text for text in warnings("qwen3-32b") if "support ended on 2026-02-26 with Neuron SDK 2.28" in text]
    assert said and "move to 0.29.0-sdk2.33.0" in said[0] and "draft models have no successor" in said[0]
    assert not [text for text in warnings("rehearsal") if "support" in text]
    run = CliRunner().invoke
    assert "warning: 0.9.1-sdk2.26.1: support ended" in run(app, ["validate", "qwen3-32b"]).output
    assert json.loads(run(app, ["validate", "qwen3-32b", "--json"]).output)["warnings"] == said
    coming = run(app, ["engines", "0.16.0-sdk2.31.1"]).output
    assert "ends with the coming Neuron SDK 2.34 (announced on 2026-10-16)" in " ".join(coming.split())


def test_what_an_arm_says_for_itself_is_named_and_speculation_is_not():
    assert not [text for text in warnings("qwen3-32b") if "not in speculation alone" in text]
    assert not [text for text in warnings("llama-3.1-405b") if "not in speculation alone" in text]
    own = {"variants.sd.neuron_config": {"fused_qkv": True}, "variants.sd.env": {"NEURON_RT_EXEC_TIMEOUT": "9"}}
    (said,) = [text for text in warnings("qwen3-32b", **own) if "not in speculation alone" in text]
    assert said.endswith("alone: $NEURON_RT_EXEC_TIMEOUT: 9 against unset; fused_qkv: on against unset")
    (said,) = [
        text for text in warnings("qwen3-32b", **{"variants.sd.quantization": "bf16", **weights()}) if "alone" in text
    ]
    assert "weights: acme/other@main against Qwen/Qwen3-32B@" in said


def test_what_speculation_switches_off_is_off_whatever_the_arm_says():
    said = {"variants.sd.extra_args": ["--async-scheduling"]}
    assert not [text for text in warnings("llama-3.1-8b-eagle3", **said) if "not in speculation alone" in text]
    against = said | {"variants.sd.compare_to": "base-async"}
    (found,) = [text for text in warnings("llama-3.1-8b-eagle3", **against) if "not in speculation alone" in text]
    sampling = "on_device_sampling_config: {all_greedy: on} against {all_greedy: off}"
    assert found.endswith(f"alone: --async-scheduling: off against on; {sampling}")


def test_what_both_arms_are_told_and_speculation_switches_off_is_said():
    """Both say it, so that they look alike; the engine takes it from one of them."""
    both = {f"variants.{name}.extra_args": ["--async-scheduling"] for name in ("sd", "base")}
    (found,) = [text for text in warnings("llama-3.1-8b-eagle3", **both) if "whatever is said" in text]
    assert found.startswith("sd is told --async-scheduling, and 0.24.0-sdk2.32.0 switches it off under speculation")
    assert not [text for text in warnings("llama-3.1-8b-eagle3") if "whatever is said" in text]
    orders = [word for name, each in both.items() for word in ("--set", f"{name}={json.dumps(each)}")]
    assert found in CliRunner().invoke(app, ["validate", "llama-3.1-8b-eagle3", *orders]).output.replace("\n", "")


def weights():
    return {"variants.sd.target": {"id": "acme/other", "family": "qwen3", "size_gib": 60}}
