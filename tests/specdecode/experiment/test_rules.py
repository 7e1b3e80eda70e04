"""For every rule a broken experiment, refused with field, rule, source and fix; all violations at once."""

import pytest
from specdecode.experiment import Capacity, Engine, ExperimentError, from_document, load_engine, load_preset
from specdecode.experiment.rules import RULES, check
from specdecode.planning.warnings import check_families

from tests.specdecode.experiment.broken import BROKEN, problems


def test_what_a_step_yields_is_said_of_servers_that_already_run_only():
    (problem,) = problems("qwen3-32b", {"variants.sd.speculation.most_tokens_per_step": "k+1"})
    assert problem.rule == "draft-verified" and problem.field == "variants.sd.speculation.most_tokens_per_step"
    assert "0.9.1-sdk2.26.1's file says what its step yields (k)" in problem.message


def test_no_rule_is_untested():
    assert set(BROKEN) == set(RULES)


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_experiment_is_refused_with_field_rule_source_and_fix(rule):
    preset, overrides, capacity, field, says = BROKEN[rule]
    problem = next(p for p in problems(preset, overrides, **capacity) if p.rule == rule)
    assert problem.field == field and says in problem.message and problem.source and problem.fix
    text = str(ExperimentError([problem]))
    assert all(part in text for part in (field, rule, problem.source, f"fix: {problem.fix}"))


NATIVE_24 = {"engine": "0.24.0-sdk2.32.0"}


@pytest.mark.parametrize(
    ("preset", "overrides", "says"),
    [
        ("account-check", {}, "0.32.0-cpu compiles nothing"),
        ("llama-3.1-8b-eagle3", NATIVE_24, "cannot compile speculation without Neuron devices: sd"),
        (
            "qwen3-32b",
            {"serving.neuron_config.save_sharded_checkpoint": False},
            "without save_sharded_checkpoint: true",
        ),
        ("qwen3-32b-tuning", {}, "an adaptive sweep chooses its arms while it holds the node"),
        ("llama-3.1-405b", {}, "compiling needs 1837 GiB of memory, and a r6id.24xlarge has 702 to give"),
    ],
)
def test_what_cannot_be_compiled_without_devices_is_refused_with_the_reason(preset, overrides, says):
    (problem,) = problems(preset, {**overrides, "compile.on": "cpu"})
    assert (problem.rule, problem.field) == ("compile-on-cpu", "compile.on")
    assert says in problem.message and "leave compile.on at accelerator" in problem.fix


def test_a_base_alone_of_the_native_plugin_can_be_compiled_on_a_cpu_and_so_can_all_arms_of_nxd_inference():
    preset = load_preset("llama-3.1-8b-eagle3", overrides=NATIVE_24)
    base = [variant.model_dump(mode="json") for variant in preset.variants if variant.compare_to is None][:1]
    alone = {**NATIVE_24, "compile.on": "cpu", "variants": base, "published": []}
    assert load_preset("llama-3.1-8b-eagle3", overrides=alone)
    for name in ("qwen3-32b", "qwen3-32b-latency", "rehearsal"):
        assert load_preset(name, overrides={"compile.on": "cpu"})


@pytest.mark.parametrize("field", ["serving.neuron_config", "variants.sd.neuron_config"])
def test_vllm_without_neuron_takes_no_neuron_configuration_and_any_tensor_parallel_size(field):
    assert load_preset("rehearsal-vllm", overrides={"serving.tensor_parallel_size": 2})
    (problem,) = problems("rehearsal-vllm", {field: {"save_sharded_checkpoint": True}})
    assert (problem.field, problem.rule) == (field, "neuron-config-dialect")
    assert "save_sharded_checkpoint" in problem.fix


@pytest.mark.parametrize("key", ["trace_tokengen_model", "pad_token_id"])
@pytest.mark.parametrize("engine", ["0.9.1-sdk2.26.1", "0.16.0-sdk2.31.1"])
def test_a_key_of_a_published_line_that_nxd_inference_ignores_is_refused_once_with_its_reason(engine, key):
    changes = {"engine": engine, "variants.sd.speculation": None, f"serving.neuron_config.{key}": 0}
    (problem,) = problems("qwen3-32b", changes)
    assert (problem.field, problem.rule) == (f"serving.neuron_config.{key}", "neuron-config-key")
    assert "unknown to NxD Inference" in problem.message and problem.fix.startswith("leave it out: ")


def test_all_violations_are_reported_together():
    found = problems(
        "qwen3-32b",
        {"engine": "0.16.0-sdk2.31.1", "serving.tensor_parallel_size": 64, "workload.temperature": 1},
        ami="v20260114",
    )
    assert {p.rule for p in found} == {"method-supported", "tensor-parallel", "greedy", "ami-driver"}


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        ({"variants.base.compare_to": "sd"}, "compare-to"), ({"variants.sd.compare_to": "sd"}, "compare-to"),
        ({"workload.cases": ["letter-a", "letter-a"]}, "unique-names"),
        ({"variants.sd.speculation.draft.size_gib": 100}, "draft-of-family"),
        ({"serving.logical_neuron_core": 1, "serving.tensor_parallel_size": 64}, "claim-size"),
        ({"workload.endpoint": "completions"}, "thinking"),
        ({"published.0.figures": {"nosuch": {"ttft": {"p50": [1.0, 1.0]}}}}, "published"),
        ({"workload.cases.shakespeare.text": "x"}, "prompt-text"),
        ({"workload.cases.meaning-of-life.kind": "set"}, "prompt-set"),
        ({"variants.base.quantization": "fp8"}, "quantization"), ({"target.rescale_fp8": True}, "quantization"),
        ({"serving.extra_args": ["--speculative-config", "{}"]}, "settable-argument"),
        ({"engine": "0.21.0-sdk2.31.1"}, "model-family"),
    ],
)  # fmt: skip
def test_further_ways_to_break_a_rule(overrides, rule):
    assert rule in {p.rule for p in problems("qwen3-32b", overrides)}


def test_a_presets_published_rows_of_what_the_experiment_leaves_out_are_left_out():
    fewer = load_preset("qwen3-32b", overrides={"workload.cases": ["meaning-of-life"]})
    assert [set(item.figures) for item in fewer.published] == [{"meaning-of-life"}]
    assert from_document(fewer.model_dump(mode="json")) == fewer, "written out, the rows are its own"
    assert load_preset("qwen3-32b", overrides={"workload.cases": ["letter-a"]}).published == ()


def test_an_arm_that_asks_for_more_cpus_than_the_node_has_is_refused():
    greedy = load_engine("0.9.1-sdk2.26.1").model_dump()
    greedy["resources"]["serving"] |= {"cpu": 182, "cpu_per_device": None}
    found = check(load_preset("qwen3-32b"), Engine.model_validate(greedy), Capacity())
    assert [(p.rule, "CPUs" in p.message) for p in found] == [("fits-node", True)]


@pytest.mark.parametrize(("output_tokens", "fits"), [(960, True), (961, False)])
def test_prompt_and_answer_may_fill_the_window_to_the_last_token(output_tokens, fits):
    overrides = {"workload.input_tokens": 64, "workload.output_tokens": output_tokens, "workload.prompts": []}
    if fits:
        assert load_preset("qwen3-32b", overrides=overrides).serving.max_model_len == 1024
    else:
        assert [problem.rule for problem in problems("qwen3-32b", overrides)] == ["lengths"]


def test_each_case_has_its_own_answer_in_the_window_and_prompts_sent_as_they_are_only_their_own_length():
    native, case = "llama-3.1-8b-eagle3", {"name": "own", "label": "own", "structured": False}
    long = case | {"kind": "sonnet", "output_tokens": 1800}
    (problem,) = problems(native, {"workload.cases": [long], "published": []})
    assert (problem.rule, problem.field) == ("lengths", "workload.cases.own.output_tokens")
    assert problem.message == "512 tokens in and 1800 out exceed max_model_len 2048"
    short = case | {"kind": "text", "text": "Summarize: hello"}
    assert load_preset(native, overrides={"workload.cases": [short], "serving.max_model_len": 512, "published": []})


def test_a_target_without_a_family_is_warned_of_where_families_decide():
    """Else gpt-oss goes without its --hf-overrides, and EAGLE3 for Qwen3 on NxD Inference is valid."""
    known = load_preset("qwen3-32b")
    unsaid = known.model_copy(update={"target": known.target.model_copy(update={"family": None})})
    (found,) = check_families(unsaid, load_engine("0.16.0-sdk2.31.1"))
    assert found.startswith("Qwen/Qwen3-32B: no `family`") and "give one of " in found
    assert not list(check_families(known, load_engine("0.16.0-sdk2.31.1")))
    (found,) = problems("gpt-oss-120b-eagle3", {"target.family": None})
    assert (found.rule, found.field) == ("model-family", "target.family")
    assert "the family of openai/gpt-oss-120b is not given" in found.message
    assert found.fix.endswith("one of llama3, gpt-oss, qwen3")


def test_an_ami_whose_kernel_panics_is_refused_for_that_and_not_for_its_driver():
    native = load_preset("llama-3.1-8b-eagle3")
    (found,) = check(native, load_engine(native.engine), Capacity(ami="v20260930"))
    assert "panics" in found.message and "driver 2.29" not in found.message
    assert found.fix.endswith("or with neuron_ami v20260714 or later, but not v20260930 or v20261003")
