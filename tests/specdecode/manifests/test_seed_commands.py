"""Our `vllm serve` beside each published one, flag by flag: every difference is listed here with its reason."""

import json
import shlex

import pytest
from specdecode.experiment import load_engine, load_preset
from specdecode.experiment.effective import serving_env
from specdecode.manifests.serve_command import serve_words

ABSENT = "(absent)"
LOCAL = "weights lie in a local folder, since a hub id makes the loader save them in fp32 and needs the network"
NAMED = "all arms serve under the target's id, so that they get the same requests"
POD = "the pod's own address"
GREEDY = "in both arms: by itself the fork samples over 256 tokens in one arm and takes the argmax in the other"
SEQUENCE = "in both arms: by itself the fork has it in the one without speculation alone"
ALIKE = {
    "--override-neuron-config.on_device_sampling_config": GREEDY,
    "--override-neuron-config.sequence_parallel_enabled": SEQUENCE,
}
INHERITS = "the Neuron loader builds the draft with the target's length, whatever is said"
UNEQUAL = "in both arms: without it the baseline starts slower and the comparison is unequal"
V1 = "the image is the V0 fork; the tutorial's setting, for all presets of this engine"
EVERYWHERE = {"--served-model-name": NAMED, "--host": POD, "model": LOCAL}
DRAFT = {"--speculative-config.model": LOCAL}

TUTORIAL = "NxD Inference tutorial: speculative decoding with Qwen3-32B and Qwen3-0.6B"
README = "aws-neuron-eks-samples, speculative_decoding_trn2_vllm/README.md"
MANIFEST = "aws-neuron-eks-samples, speculative_decoding_trn2_vllm/qwen*-vllm-deploy.yaml"
TUTORIAL_405B = "NxD Inference tutorial: Llama-3.1-405B with speculation and quantization"
QWEN = "VLLM_NEURON_FRAMEWORK=neuronx-distributed-inference MODEL_ID=Qwen/Qwen3-32B"
SPEC = "--speculative-config"

COMMANDS = [
    # source, preset, variant, the published line, {what differs: why}
    (
        TUTORIAL,
        "qwen3-32b-latency",
        "base",
        """VLLM_NEURON_FRAMEWORK=neuronx-distributed-inference VLLM_USE_V1=0 vllm serve Qwen/Qwen3-32B
           --tensor-parallel-size 64 --max-num-seqs 1 --max-model-len 6400
           --override-neuron-config '{"save_sharded_checkpoint": true}'""",
        {"--port": POD, **ALIKE},
    ),
    (
        TUTORIAL,
        "qwen3-32b-latency",
        "sd",
        """VLLM_NEURON_FRAMEWORK=neuronx-distributed-inference VLLM_USE_V1=0 vllm serve Qwen/Qwen3-32B
           --tensor-parallel-size 64 --max-num-seqs 1 --max-model-len 6400
           --override-neuron-config '{"save_sharded_checkpoint": true, "enable_fused_speculation": true}'
           --speculative-config '{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 7, "max_model_len": 2048,
                                  "method": "eagle"}'""",
        {"--port": POD, f"{SPEC}.max_model_len": INHERITS, **DRAFT, **ALIKE},
    ),
    (
        README,
        "qwen3-32b",
        "base",
        """VLLM_NEURON_FRAMEWORK=neuronx-distributed-inference vllm serve Qwen/Qwen3-32B --tensor-parallel-size 32
           --max-num-seqs 4 --max-model-len 1024 --override-neuron-config '{"save_sharded_checkpoint": true}'""",
        {"--port": POD, "VLLM_USE_V1": V1, **ALIKE},
    ),
    (
        README,
        "qwen3-32b",
        "sd",
        """VLLM_NEURON_FRAMEWORK=neuronx-distributed-inference vllm serve Qwen/Qwen3-32B --tensor-parallel-size 32
           --max-num-seqs 4 --max-model-len 1024
           --override-neuron-config '{"save_sharded_checkpoint": true, "enable_fused_speculation": true}'
           --speculative-config '{"model": "Qwen/Qwen3-1.7B", "num_speculative_tokens": 7, "max_model_len": 2048,
                                  "method": "eagle"}'""",
        {"--port": POD, "VLLM_USE_V1": V1, f"{SPEC}.max_model_len": INHERITS, **DRAFT, **ALIKE},
    ),
    (
        MANIFEST,
        "qwen3-32b",
        "base",
        """VLLM_NEURON_FRAMEWORK=neuronx-distributed-inference vllm serve Qwen/Qwen3-32B --tensor-parallel-size 32
           --max-num-seqs 4 --max-model-len 1024""",
        {"--port": POD, "VLLM_USE_V1": V1, "--override-neuron-config.save_sharded_checkpoint": UNEQUAL, **ALIKE},
    ),
    (
        MANIFEST,
        "qwen3-32b",
        "sd",
        """VLLM_NEURON_FRAMEWORK=neuronx-distributed-inference vllm serve Qwen/Qwen3-32B --tensor-parallel-size 32
           --max-num-seqs 4 --max-model-len 1024 --override-neuron-config '{"save_sharded_checkpoint": true}'
           --speculative-config '{"model": "Qwen/Qwen3-1.7B", "num_speculative_tokens": 15, "max_model_len": 1024,
                                  "method": "eagle"}'""",
        {
            "--port": POD,
            "VLLM_USE_V1": V1,
            f"{SPEC}.num_speculative_tokens": "README and article: 7, and the article calls larger windows slower",
            "--override-neuron-config.enable_fused_speculation": "the fork's default, said aloud as in the README",
            **DRAFT,
            **ALIKE,
        },
    ),
    (
        TUTORIAL_405B,
        "llama-3.1-405b",
        "base",
        """VLLM_NEURON_FRAMEWORK=neuronx-distributed-inference NEURON_RT_VIRTUAL_CORE_SIZE=2 NEURON_RT_NUM_CORES=64
           NEURON_RT_EXEC_TIMEOUT=600 VLLM_RPC_TIMEOUT=100000 vllm serve meta-llama/Llama-3.1-405B-Instruct
           --max-num-seqs 1 --max-model-len 12800 --tensor-parallel-size 64 --device neuron --use-v2-block-manager
           --override-neuron-config '{"max_context_length": 12288, "fused_qkv": true, "sequence_parallel_enabled": true,
              "qkv_kernel_enabled": true, "attn_kernel_enabled": true, "mlp_kernel_enabled": true,
              "cc_pipeline_tiling_factor": 1, "logical_nc_config": 2, "enable_bucketing": true, "pad_token_id": 2,
              "on_device_sampling_config": {"top_k": 1, "do_sample": true}}'
           --port 8000""",
        {
            "VLLM_USE_V1": V1,
            "NEURON_RT_INSPECT_ENABLE": "the tutorial's second arm sets it; equal in all of ours",
            "--device": "0.9.1 finds the device by itself",
            "--use-v2-block-manager": "the only block manager of 0.9.1, which has no such flag",
            "--override-neuron-config.save_sharded_checkpoint": UNEQUAL,
            "--override-neuron-config.context_encoding_buckets": "equal buckets in all arms, none of 1024 or less",
            "--override-neuron-config.token_generation_buckets": "equal buckets in all arms",
            "--override-neuron-config.pad_token_id": "an argument of inference_demo's generation, not of NeuronConfig",
            "--override-neuron-config.on_device_sampling_config": "top_k 1 samples nothing; said as the fork says it",
        },
    ),
    (
        TUTORIAL_405B,
        "llama-3.1-405b",
        "sd-fp8",
        """VLLM_NEURON_FRAMEWORK=neuronx-distributed-inference NEURON_RT_INSPECT_ENABLE=0 NEURON_RT_VIRTUAL_CORE_SIZE=2
           NEURON_RT_NUM_CORES=64 NEURON_RT_EXEC_TIMEOUT=600 VLLM_RPC_TIMEOUT=100000 XLA_HANDLE_SPECIAL_SCALAR=1
           UNSAFE_FP8FNCAST=1 vllm serve meta-llama/Llama-3.1-405B-Instruct-FP8-rescaled
           --max-num-seqs 1 --max-model-len 12800 --tensor-parallel-size 64 --device neuron --use-v2-block-manager
           --speculative-config '{"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 7,
                                  "max_model_len": 12800}'
           --override-neuron-config '{"enable_fused_speculation": true, "quantized-mlp-kernel-enabled": true,
              "quantization-type": "per_channel_symmetric", "max_context_length": 12288, "fused_qkv": true,
              "sequence_parallel_enabled": true, "qkv_kernel_enabled": true, "attn_kernel_enabled": true,
              "mlp_kernel_enabled": true, "cc_pipeline_tiling_factor": 1, "logical_nc_config": 2,
              "enable_bucketing": true, "trace_tokengen_model": false, "rmsnorm_quantize_kernel_enabled": true,
              "pad_token_id": 2, "on_device_sampling_config": {"top_k": 1},
              "context_encoding_buckets": [1024, 2048, 4096, 10240, 12288], "token_generation_buckets": [12800]}'
           --port 8000""",
        {
            "VLLM_USE_V1": V1,
            "--device": "0.9.1 finds the device by itself",
            "--use-v2-block-manager": "the only block manager of 0.9.1, which has no such flag",
            f"{SPEC}.method": "0.9.1 refuses a draft model without it; it means no EAGLE there",
            "--override-neuron-config.quantized-mlp-kernel-enabled": "ignored with a hyphen",
            "--override-neuron-config.quantized_mlp_kernel_enabled": "with underscores it takes effect",
            "--override-neuron-config.quantization-type": "ignored with a hyphen",
            "--override-neuron-config.quantization_type": "with underscores it takes effect",
            "--override-neuron-config.save_sharded_checkpoint": UNEQUAL,
            "--override-neuron-config.trace_tokengen_model": "unknown to NxD Inference 0.6, which warns and ignores it",
            "--override-neuron-config.modules_to_not_convert": "NxD Inference 0.6 demands it with quantized kernels",
            "--override-neuron-config.draft_model_modules_to_not_convert": "the draft is bf16",
            "--override-neuron-config.context_encoding_buckets": "kernels fail on buckets of 1024 or less",
            "--override-neuron-config.pad_token_id": "an argument of inference_demo's generation, not of NeuronConfig",
            "--override-neuron-config.on_device_sampling_config": "do_sample false, as the fork's own default says",
            **DRAFT,
        },
    ),
]


def parsed(words):
    """Environment, model and flags of a command; JSON values taken apart into their keys."""
    out = {}
    words = list(words)
    while "=" in words[0] and not words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        out[name] = value
    assert words[:2] == ["vllm", "serve"]
    out["model"], rest = words[2], words[3:]
    while rest:
        flag = rest.pop(0)
        value = rest.pop(0) if rest and not rest[0].startswith("--") else True
        if isinstance(value, str) and value.startswith("{"):
            out |= {f"{flag}.{key}": inner for key, inner in json.loads(value).items()}
        else:
            out[flag] = value
    return out


def words_of(preset, variant, *, compiled):
    """Our line of an arm: its variables and its words."""
    experiment = load_preset(preset)
    engine, arm = load_engine(experiment.engine), experiment.variant(variant)
    line = " ".join(serve_words(experiment, arm, engine, compiled=compiled)).replace("$PWD", "/w")
    env = [f"{name}={value}" for name, value in serving_env(experiment, arm, engine).items()]
    return [*env, *shlex.split(line.replace("$POD_IP", "10.0.0.1"))]


@pytest.mark.parametrize(("source", "preset", "variant", "line", "reasons"), COMMANDS)
def test_every_difference_from_the_published_line_has_a_reason(source, preset, variant, line, reasons):
    theirs, mine = parsed(shlex.split(line)), parsed(words_of(preset, variant, compiled=False))
    different = {k for k in theirs.keys() | mine.keys() if theirs.get(k, ABSENT) != mine.get(k, ABSENT)}
    assert different == set(reasons) | set(EVERYWHERE), f"{source}: compare flag by flag"


@pytest.mark.parametrize("preset", ["qwen3-32b", "qwen3-32b-latency", "rehearsal"])
def test_the_arms_of_a_pair_differ_in_speculation_alone(preset):
    experiment = load_preset(preset)
    engine = load_engine(experiment.engine)
    base, sd = ([*serve_words(experiment, v, engine, compiled=True)] for v in experiment.variants)
    one, two = (parsed(shlex.split(" ".join(w))) for w in (base, sd))
    told = two.pop("--per-request-spec-decode-metrics", None)  # how drafts fared; nothing is computed otherwise
    assert (told == "summary") == (preset == "rehearsal")
    assert {k for k in one.keys() | two.keys() if one.get(k) != two.get(k)} == {
        "--override-neuron-config.enable_fused_speculation",
        *(f"{SPEC}.{key}" for key in ("model", "num_speculative_tokens", "max_model_len", "method")),
    }


def test_dialects_of_the_newer_engines():
    experiment = load_preset("qwen3-32b")
    base = experiment.variants[0]
    plugin = serve_words(experiment, base, load_engine("0.16.0-sdk2.31.1"), compiled=True)
    assert '--additional-config \'{"override_neuron_config": {"save_sharded_checkpoint": true}}\'' in plugin
    assert plugin[-3:] == ["--no-enable-prefix-caching", "--num-gpu-blocks-override", "4"]
    native = serve_words(experiment, base, load_engine("0.29.0-sdk2.33.0"), compiled=True)
    assert any(word.startswith('--additional-config \'{"neuron_config":') for word in native)


@pytest.mark.parametrize("name", ["0.9.1-sdk2.26.1", "0.16.0-sdk2.31.1", "0.29.0-sdk2.33.0"])
def test_a_loader_that_finds_its_artifact_is_given_no_mapping(name):
    """It would set it in place of an object of the loaded configuration, and `on_device_sampling_config.global_topk`,
    which vLLM's runner reads for each request, would not be there."""
    experiment, engine = load_preset("llama-3.1-405b"), load_engine(name)
    base = experiment.variant("base")

    def config(*, compiled):
        words = parsed(shlex.split(" ".join(serve_words(experiment, base, engine, compiled=compiled))))
        key = next((k for k in words if k.startswith("--additional-config.")), None)
        return words[key] if key else {k.partition(".")[2]: v for k, v in words.items() if "neuron-config." in k}

    compiling, serving = config(compiled=False), config(compiled=True)
    assert compiling["on_device_sampling_config"] == {"top_k": 1, "do_sample": False}
    left_out = {} if name == "0.29.0-sdk2.33.0" else {"on_device_sampling_config"}
    assert compiling.keys() - serving.keys() == set(left_out)
    assert all(compiling[key] == value for key, value in serving.items())
