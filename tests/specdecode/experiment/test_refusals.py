"""Every engine, method, family, size, shape and AMI together: an answer each time, and each reason once."""

import itertools
from collections import Counter

import pytest
from specdecode.experiment import Capacity, ExperimentError, engine_names, load_engine, load_preset
from specdecode.experiment.engine import Dialect
from specdecode.experiment.rules import check
from specdecode.experiment.variants import Method, ModelKind, Speculation

NATIVE = "0.29.0-sdk2.33.0"
KINDS = {method: ModelKind(method) for method in (Method.EAGLE, Method.EAGLE3, Method.DFLASH, Method.MEDUSA)}
FAMILIES = ("llama3", "qwen3", "gpt-oss", "gemma9", None)
AMIS = (None, "v20250101", "v20260625", "v20260714", "v20261003")
BASE = load_preset("rehearsal")


def experiment(method, family, ranks, devices):
    """Two arms that are alike on any engine, of a target of 15 GiB."""
    target = BASE.target.model_copy(update={"family": family, "size_gib": 15.0})
    head = target.model_copy(update={"id": "acme/head", "kind": KINDS.get(method, ModelKind.MODEL), "size_gib": 1.0})
    speculation = method and Speculation(method=method, draft=head, num_speculative_tokens=7)
    base, sd = BASE.variants
    alone = {"extra_args": ("--no-async-scheduling",)}
    arms = base.model_copy(update=alone), sd.model_copy(update=alone | {"speculation": speculation})
    settings = {"tensor_parallel_size": ranks, "devices": devices, "neuron_config": {}}
    serving = BASE.serving.model_copy(update=settings)
    return BASE.model_copy(update={"target": target, "variants": arms, "serving": serving})


def expected(engine, method, family, ranks, devices, ami):
    """The rules that must speak, from the engine's data alone."""
    out = set()
    if family not in engine.model_families and (family or engine.dialect is Dialect.NATIVE_PLUGIN):
        out.add("model-family")
    support = engine.methods.get(method)
    if method and not support:
        out.add("method-supported")
    if support and support.families and family in engine.model_families and family not in support.families:
        out.add("method-family")
    if support and support.needs_args:
        out.add("method-needs")
    cores = devices * 4
    if engine.dialect is Dialect.NATIVE_PLUGIN:
        if ranks > cores or ranks.bit_count() != 1:
            out.add("tensor-parallel")
    elif engine.dialect is not Dialect.UPSTREAM and ranks != cores:
        out.add("tensor-parallel")
    if devices not in (8, 16):
        out.add("claim-size")
    runtime = engine.runtime
    early, late = ami and ami < runtime.oldest_ami, ami and runtime.newest_ami and ami > runtime.newest_ami
    if early or late or ami in runtime.refused_amis:
        out.add("ami-driver")
    return out


@pytest.mark.parametrize("name", engine_names())
def test_each_combination_is_refused_for_its_reasons_and_for_each_of_them_once(name):
    engine, seen = load_engine(name), Counter()
    shapes = itertools.product((None, *Method), FAMILIES, (4, 12, 32, 64), (2, 8, 16))
    for (method, family, ranks, devices), ami in zip(shapes, itertools.cycle(AMIS), strict=False):
        found = check(experiment(method, family, ranks, devices), engine, Capacity(ami=ami))
        reasons = {p.rule for p in found} - {"settable-argument", "device-memory", "thinking"}
        chosen = (method, family, ranks, devices, ami)
        assert reasons == expected(engine, *chosen), chosen
        once = Counter((p.rule, p.field) for p in found)
        assert set(once.values()) <= {1}, once
        assert all(p.message and p.fix and p.source for p in found)
        seen[not found] += 1
    assert seen[False], "nothing is refused"


BATCHED = "--max-num-batched-tokens"
NATIVELY = {
    "engine": NATIVE,
    "target": {"id": "acme/llama", "family": "llama3", "size_gib": 15},
    "variants.sd.speculation": None,
    "variants.sd.neuron_config": {},
}


@pytest.mark.parametrize(
    ("config", "arguments", "rule"),
    [
        ({}, [], None),
        ({"num_batched_tokens_buckets": [512]}, ["--max-num-batched-tokens", "512"], None),
        ({"num_batched_tokens_buckets": [8192, 4096]}, ["--max-num-batched-tokens", "4096"], "native-buckets"),
        ({"num_batched_tokens_buckets": [512]}, ["--max-num-batched-tokens", "1024"], "native-buckets"),
        ({"num_batched_tokens_buckets": [512]}, [], "native-buckets"),
        ({"num_batched_tokens_buckets": 512}, ["--max-num-batched-tokens", "512"], "native-buckets"),
        ({"num_seqs_buckets": [1, 4]}, [], None),
        ({"num_seqs_buckets": [1, 8]}, [], "native-buckets"),
        ({"num_seqs_buckets": []}, [], "native-buckets"),
        ({"kv_segment_size_buckets": [512]}, ["--enable-prefix-caching"], None),
        ({}, ["--enable-prefix-caching"], "native-segments"),
        ({"kv_segment_size_buckets": [768]}, [], "native-segments"),
        ({"kv_segment_size_buckets": [512]}, ["--block-size", "96"], "native-segments"),
        ({"kv_segment_size_buckets": [512]}, ["--block-size", "0"], None),
        (
            {"kv_segment_size_buckets": [512], "num_batched_tokens_buckets": [1024]},
            ["--max-num-batched-tokens", "1024"],
            "native-segments",
        ),
        ({"context_encoding_buckets": [512]}, [], "neuron-config-dialect"),
    ],
)
def test_shapes_that_the_native_plugin_refuses_at_its_start_or_ignores(config, arguments, rule):
    overrides = NATIVELY | {"serving.neuron_config": config, "serving.extra_args": arguments}
    try:
        load_preset("rehearsal", overrides=overrides)
    except ExperimentError as error:
        assert [p.rule for p in error.problems] == [rule]
    else:
        assert rule is None


@pytest.mark.parametrize(
    ("preset", "longest", "arguments", "says"),
    [
        ("qwen3-32b-native", 16384, f"{BATCHED} 16384", None),
        ("qwen3-32b-native", 32768, "", None),
        ("qwen3-32b-native", 32768, f"{BATCHED} 32768", "read at once up to 16384"),
        ("qwen3-32b-native", 32768, "--no-enable-chunked-prefill", "32768 suits no max_model_len of 32768"),
        ("llama-3.1-8b-eagle3", 2048, f"{BATCHED} 3000", None),
        ("llama-3.1-8b-eagle3", 4096, f"{BATCHED} 3000", "3000 suits no max_model_len of 4096"),
        ("llama-3.1-8b-dflash", 16384, None, "less than max_model_len 16384, without chunked prefill"),
        ("rehearsal-vllm", 4096, f"{BATCHED} 3000", None),
        ("rehearsal-vllm", 4096, f"{BATCHED} 3000 --no-enable-chunked-prefill", "less than max_model_len"),
    ],
)
def test_tokens_of_a_step_are_what_vllm_and_the_plugins_kernels_can_take(preset, longest, arguments, says):
    """`arguments`: None for the preset's own."""
    own = {} if arguments is None else {"serving.extra_args": arguments.split()}
    overrides = {"serving.max_model_len": longest, **own}
    if says is None:
        assert load_preset(preset, overrides=overrides)
    else:
        with pytest.raises(ExperimentError) as caught:
            load_preset(preset, overrides=overrides)
        (problem,) = caught.value.problems
        assert (problem.rule, problem.field) == ("batched-tokens", "serving.extra_args") and says in problem.message


def test_memory_of_the_native_plugin_is_that_of_its_ranks_and_of_what_its_loader_unpacks():
    target = {"id": "openai/gpt-oss-120b", "family": "gpt-oss", "size_gib": 61}
    overrides = NATIVELY | {"target": target, "serving.neuron_config": {}}
    assert load_preset("rehearsal", overrides=overrides | {"serving.tensor_parallel_size": 16})
    with pytest.raises(ExperimentError, match=r"219\.6 GiB of weights do not fit into 192 GiB") as caught:
        load_preset("rehearsal", overrides=overrides | {"serving.tensor_parallel_size": 8})
    assert {p.rule for p in caught.value.problems} == {"device-memory"}


def test_quantization_of_the_native_plugin_is_the_checkpoints():
    overrides = NATIVELY | {"serving.neuron_config": {}, "variants.sd.quantization": "fp8"}
    assert load_preset("rehearsal", overrides=overrides)
    for change, says in (
        ({"target.family": "qwen3"}, "has no fp8 for qwen3"),
        ({"target.rescale_fp8": True}, "as published, without rescaling"),
    ):
        with pytest.raises(ExperimentError, match=says):
            load_preset("rehearsal", overrides=overrides | change)


@pytest.mark.parametrize("given", [{}, {"variants.base.neuron_config.sequence_parallel_enabled": False}])
def test_a_default_that_speculation_changes_is_said_or_refused(given):
    """The fork samples and shards otherwise without speculation: the engine's file says both, for every arm."""
    experiment, engine = load_preset("qwen3-32b", overrides=given), load_engine("0.9.1-sdk2.26.1")
    assert check(experiment, engine, Capacity()) == [], "what an arm says for itself is chosen"
    silent = engine.model_copy(update={"neuron_config": {}})
    found = [p.message for p in check(experiment, silent, Capacity()) if p.rule == "arms-alike"]
    assert len(found) == (1 if given else 2)
    assert "on_device_sampling_config: {top_k: 1, do_sample: off} against {dynamic: on, deterministic: off}" in found[0]
