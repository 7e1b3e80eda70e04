"""Our `vllm serve` of the native plugin beside each published one, flag by flag: each difference has its reason."""

import shlex

import pytest
from specdecode.experiment import load_engine, load_preset, preset_names
from specdecode.experiment.engine import Dialect

from tests.specdecode.manifests.test_seed_commands import ABSENT, DRAFT, EVERYWHERE, POD, parsed, words_of

NC = "--additional-config.neuron_config"
CACHED = "a repeated prompt must be prefilled again, as on the other engines; the tutorial serves"
ALIKE = "the tutorial's baseline runs asynchronously and its other arm cannot: ours is alike"
FORCED = "what speculation forces, said"
GREEDY = "greedy on the device in every arm, as the gpt-oss tutorial; by itself the plugin compiles top-k sampling"
LONGER = "longer than a graph may take by itself, in all arms of the engine; no effect on what is compiled"
PATIENCE = {
    "VLLM_NEURON_COMPILATION_TIMEOUT": LONGER,
    "NEURON_LIBTORCH_COMPILATION_TIMEOUT": "the same under the name of SDK 2.32's configuration reference",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": LONGER,
}
NO_EFA = {
    "NEURON_SKIP_EFA_AFFINITY": "the tutorial's instance has EFA interfaces, our nodes have none: the worker would end"
}
TOLD = {"--per-request-spec-decode-metrics": "each answer says how its drafts fared, which the tutorial does not ask"}
SAMPLING = {f"{NC}.on_device_sampling_config": GREEDY}
NATIVE_ROUTE = {"VLLM_NEURON_BACKEND": "the default, said: the precompile cache is off unless it is said"}
LLAMA = """vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 8 --max-num-seqs 2 --max-model-len 2048
           --no-enable-prefix-caching --port 8000"""
GPT_OSS = """vllm serve openai/gpt-oss-120b --dtype bfloat16 --tensor-parallel-size 16 --max-num-seqs 1
             --max-model-len 768 --max-num-batched-tokens 512 --no-enable-prefix-caching
             --hf-overrides '{"quantization_config": {}}'
             --additional-config '{"neuron_config": {"quantization": "bf16", "num_batched_tokens_buckets": [512],
               "num_seqs_buckets": [1], "kv_segment_size_buckets": [512],
               "on_device_sampling_config": {"all_greedy": true}}}' --port 8000"""
LLAMA_70B = """VLLM_NEURON_COMPILATION_TIMEOUT=1200 VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=1200
               vllm serve nvidia/Llama-3.3-70B-Instruct-FP8 --tensor-parallel-size 16 --max-model-len 16384
               --max-num-batched-tokens 8192 --max-num-seqs 8 --block-size 128 --optimization-level 2
               --additional-config '{"neuron_config": {"kv_segment_size_buckets": [8192],
                 "num_batched_tokens_buckets": [8192], "num_seqs_buckets": [8], "fp8_packed_kv": true}}'"""
DFLASH = """NEURON_SKIP_EFA_AFFINITY=1 VLLM_NEURON_COMPILATION_TIMEOUT=3600 VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=3600
            vllm serve meta-llama/Llama-3.1-8B-Instruct --port 8000 --tensor-parallel-size 4 --dtype bfloat16
            --max-model-len 8192 --max-num-batched-tokens 8192 --max-num-seqs 4 --num-gpu-blocks-override 1200
            --no-async-scheduling --no-enable-chunked-prefill --no-enable-prefix-caching
            --disable-hybrid-kv-cache-manager
            --additional-config '{"neuron_config": {"quantization": "bf16"}}'"""


def speculating(line, method, model, k):
    return (
        line
        + f""" --speculative-config '{{"method": "{method}", "model": "{model}", "num_speculative_tokens": {k}}}'"""
    )


COMMANDS = [
    # preset, variant, the published line, {what differs: why}
    (
        "llama-3.1-8b-eagle3",
        "base-async",
        LLAMA,
        NO_EFA | PATIENCE | {f"{NC}.on_device_sampling_config": "the plugin's own default (all_greedy off), said"},
    ),
    ("llama-3.1-8b-eagle3", "base", LLAMA, NO_EFA | PATIENCE | SAMPLING | {"--no-async-scheduling": ALIKE}),
    (
        "llama-3.1-8b-eagle3",
        "sd",
        speculating(LLAMA, "eagle3", "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3", 3),
        NO_EFA | PATIENCE | SAMPLING | DRAFT | {"--no-async-scheduling": FORCED},
    ),
    ("gpt-oss-120b-eagle3", "base-async", GPT_OSS, NO_EFA | PATIENCE),
    ("gpt-oss-120b-eagle3", "base", GPT_OSS, NO_EFA | PATIENCE | {"--no-async-scheduling": ALIKE}),
    (
        "gpt-oss-120b-eagle3",
        "sd",
        speculating(GPT_OSS, "eagle3", "RedHatAI/gpt-oss-120b-speculator.eagle3", 1),
        NO_EFA | PATIENCE | DRAFT | {"--no-async-scheduling": FORCED},
    ),
    (
        "llama-3.3-70b-fp8-eagle3",
        "base-async",
        LLAMA_70B + " --enable-prefix-caching",
        NO_EFA
        | SAMPLING
        | {
            "NEURON_LIBTORCH_COMPILATION_TIMEOUT": PATIENCE["NEURON_LIBTORCH_COMPILATION_TIMEOUT"],
            "--enable-prefix-caching": CACHED,
            "--no-enable-prefix-caching": CACHED,
            "--port": POD,
        },
    ),
    (
        "llama-3.3-70b-fp8-eagle3",
        "sd",
        speculating(LLAMA_70B, "eagle3", "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3", 3),
        NO_EFA
        | SAMPLING
        | DRAFT
        | {
            "NEURON_LIBTORCH_COMPILATION_TIMEOUT": PATIENCE["NEURON_LIBTORCH_COMPILATION_TIMEOUT"],
            "--no-async-scheduling": FORCED,
            "--no-enable-prefix-caching": CACHED,
            "--port": POD,
        },
    ),
    (
        "llama-3.1-8b-dflash",
        "sd",
        speculating(DFLASH, "dflash", "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat", 9),
        PATIENCE | SAMPLING | DRAFT | TOLD | NATIVE_ROUTE,
    ),
]


def test_every_preset_of_the_native_plugin_is_laid_beside_its_source():
    native = {name for name in preset_names() if load_engine(load_preset(name).engine).dialect is Dialect.NATIVE_PLUGIN}
    unpublished = {"qwen3-32b-native", "llama-3.1-8b-eagle3-small", "gpt-oss-20b-eagle3-small"}
    assert native == {preset for preset, *_ in COMMANDS} | unpublished
    for preset in native - unpublished:
        speculating = {variant.name for variant in load_preset(preset).variants if variant.speculation}
        assert speculating <= {variant for name, variant, *_ in COMMANDS if name == preset}


@pytest.mark.parametrize("variant", ["base", "sd"])
def test_the_small_node_has_the_same_lines_but_for_tp_and_fewer_compilers(variant):
    large, small = (ours(f"llama-3.1-8b-eagle3{end}", variant) for end in ("", "-small"))
    assert {key for key in large.keys() | small.keys() if large.get(key) != small.get(key)} == {
        "--tensor-parallel-size",
        "NEURON_LIBTORCH_PARALLEL_COMPILE_WORKERS",
    }


def flat(words):
    """As `parsed`, with the keys of neuron_config taken apart too."""
    out = parsed(words)
    for key, value in out.pop(NC, {}).items():
        out[f"{NC}.{key}"] = value
    return out


def ours(preset, variant):
    return flat(words_of(preset, variant, compiled=True))


@pytest.mark.parametrize(("preset", "variant", "line", "reasons"), COMMANDS)
def test_every_difference_from_the_published_line_has_a_reason(preset, variant, line, reasons):
    theirs, mine = flat(shlex.split(line)), ours(preset, variant)
    different = {k for k in theirs.keys() | mine.keys() if theirs.get(k, ABSENT) != mine.get(k, ABSENT)}
    assert different == set(reasons) | set(EVERYWHERE), "compare flag by flag"


def test_the_recipe_of_qwen3_32b_is_its_baseline_alone():
    mine = ours("qwen3-32b-native", "base-async")
    assert (mine["--tensor-parallel-size"], mine["model"].rsplit("/", 1)[1][:17]) == ("8", "Qwen--Qwen3-32B@9")
    assert all(variant.speculation is None for variant in load_preset("qwen3-32b-native").variants)
