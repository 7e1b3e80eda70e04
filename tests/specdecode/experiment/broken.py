"""For every rule an experiment that breaks it."""

from __future__ import annotations

import pytest
from specdecode.experiment import Capacity, ExperimentError, load_preset

NATIVE = "0.29.0-sdk2.33.0"
LLAMA = {"id": "acme/llama", "family": "llama3", "size_gib": 15}
HEAD = {"id": "acme/head", "kind": "dflash", "family": "llama3", "size_gib": 2}
NATIVELY = {"engine": NATIVE, "serving.neuron_config": {}, "target": LLAMA, "workload.thinking": None}
DFLASH = {
    **NATIVELY,
    "variants.sd.speculation": {"method": "dflash", "draft": HEAD, "num_speculative_tokens": 9},
    "serving.extra_args": [
        "--no-async-scheduling",
        "--no-enable-chunked-prefill",
        "--disable-hybrid-kv-cache-manager",
    ],
}
EAGLE = {"id": "acme/eagle", "kind": "eagle", "family": "qwen3", "size_gib": 2}
BROKEN = {
    # rule: (preset, overrides, AMI, field, part of the message)
    "unique-names": ("qwen3-32b", {"variants.sd.label": "Base"}, None, "variants.Base.label", "used 2 times"),
    "compare-to": ("qwen3-32b", {"variants.sd.compare_to": "bsae"}, None, "variants.sd.compare_to", "no other variant"),
    "sweep-adaptive": (
        "rehearsal-sweep",
        {"variants.sd-k4.neuron_config": {"x": 1}},
        None,
        "variants.sd-k4",
        "does not differ from base in speculation alone",
    ),
    "compile-on-cpu": (
        "qwen3-32b-native",
        {"compile.on": "cpu"},
        None,
        "compile.on",
        "0.29.0-sdk2.33.0 is not known to compile",
    ),
    "node-engine": ("qwen3-32b", {"node": "m7i.4xlarge"}, None, "node", "a m7i.4xlarge has none"),
    "model-family": ("qwen3-32b", {"target.family": "gemma3"}, None, "target", "serves no gemma3"),
    "method-supported": ("qwen3-32b", {"engine": "0.16.0-sdk2.31.1"}, None, "variants.sd.speculation.method", "fork"),
    "method-family": (
        "qwen3-32b",
        {
            "engine": "0.16.0-sdk2.31.1",
            "variants.sd.speculation": {
                "method": "eagle3",
                "draft": EAGLE | {"kind": "eagle3"},
                "num_speculative_tokens": 5,
            },
        },
        None,
        "variants.sd.speculation.method",
        "no eagle3 for qwen3",
    ),
    "method-needs": (
        "rehearsal",
        {**DFLASH, "variants.sd.speculation.num_speculative_tokens": 8},
        None,
        "variants.sd.speculation.num_speculative_tokens",
        "no known head has k = 8",
    ),
    "arms-alike": (
        "rehearsal",
        {
            **NATIVELY,
            "variants.sd.speculation": {
                "method": "eagle3",
                "draft": {**HEAD, "kind": "eagle3"},
                "num_speculative_tokens": 3,
            },
        },
        None,
        "variants.sd",
        "--async-scheduling: off against on",
    ),
    "native-buckets": (
        "rehearsal",
        {**DFLASH, "serving.neuron_config": {"num_seqs_buckets": [1, 2]}},
        None,
        "serving.neuron_config.num_seqs_buckets",
        "end with max_num_seqs, which is 4",
    ),
    "native-segments": (
        "rehearsal",
        {**DFLASH, "serving.neuron_config": {"kv_segment_size_buckets": [600]}},
        None,
        "serving.neuron_config.kv_segment_size_buckets",
        "[600]",
    ),
    "native-cpu-compile": (
        "rehearsal",
        {**DFLASH, "serving.env": {"VLLM_NEURON_CPU_COMPILE": "1"}},
        None,
        "variants.sd.env.VLLM_NEURON_CPU_COMPILE",
        "without devices",
    ),
    "draft-verified": (
        "qwen3-32b",
        {"variants.sd.speculation.num_speculative_tokens": 1},
        None,
        "variants.sd.speculation.num_speculative_tokens",
        "verifies k - 1 of k drafts",
    ),
    "k-by-load": (
        "qwen3-32b",
        {"variants.sd.speculation.num_speculative_tokens_per_batch_size": [[1, 4, 7]]},
        None,
        "variants.sd.speculation.num_speculative_tokens_per_batch_size",
        "speculates with one k at every load",
    ),
    "draft-kind": (
        "qwen3-32b",
        {"variants.sd.speculation.method": "eagle"},
        None,
        "variants.sd.speculation.draft.kind",
        "needs eagle",
    ),
    "draft-of-family": (
        "qwen3-32b",
        {"variants.sd.speculation.draft.family": "llama3"},
        None,
        "variants.sd.speculation.draft",
        "vocabulary",
    ),
    "tensor-parallel": (
        "qwen3-32b",
        {"serving.tensor_parallel_size": 64},
        None,
        "serving.tensor_parallel_size",
        "32 logical cores",
    ),
    "claim-size": (
        "qwen3-32b",
        {"serving.devices": 2, "serving.tensor_parallel_size": 8},
        None,
        "serving.devices",
        "no claim template for 2",
    ),
    "device-memory": ("llama-3.1-405b", {"target.size_gib": 1600}, None, "variants.base", "1536 GiB of device memory"),
    "fits-node": ("llama-3.1-405b", {"target.size_gib": 1100}, None, "engine", "GiB of memory"),
    "lengths": ("qwen3-32b", {"workload.output_tokens": 1000}, None, "workload.output_tokens", "exceed max_model_len"),
    "clients": (
        "qwen3-32b",
        {"workload.concurrency": [1, 40], "workload.streams_per_client": 2},
        None,
        "workload.concurrency",
        "40 at a time takes 20 clients, and 16 is the most",
    ),
    "greedy": ("qwen3-32b", {"workload.temperature": 0.7}, None, "workload.temperature", "greedily"),
    "thinking": ("qwen3-32b", {"workload.thinking": None}, None, "workload.thinking", "thinks by default"),
    "prompt-text": (
        "rehearsal",
        {"workload.cases.count.text": " "},
        None,
        "workload.cases.count.text",
        "needs a text",
    ),
    "prompt-set": (
        "qwen3-32b",
        {"workload.prompts": [{"set": "work@" + "0" * 64, "categories": ["code"]}]},
        None,
        "workload.cases.code.prompts",
        "not 000000000000",
    ),
    "prompt-fits": (
        "qwen3-32b",
        {"workload.prompts": [{"set": "work", "categories": ["retrieval"], "length": "long"}]},
        None,
        "workload.cases.retrieval",
        "retrieval/long-theatre-archive has at least 2273 tokens, with 600 for the answer 2873",
    ),
    "published-figure": (
        "llama-3.1-8b-eagle3",
        {"workload.cases": ["meaning-of-life"]},
        None,
        "published.0.case",
        "no 'shakespeare'",
    ),
    "quantization": (
        "llama-3.1-405b",
        {"variants.base-fp8.env": {}},
        None,
        "variants.base-fp8.env",
        "XLA_HANDLE_SPECIAL_SCALAR",
    ),
    "settable-variable": (
        "qwen3-32b",
        {"serving.env": {"AWS_ENDPOINT_URL": "http://evil"}},
        None,
        "serving.env.AWS_ENDPOINT_URL",
        "whom to ask",
    ),
    "settable-argument": ("qwen3-32b", {"serving.extra_args": ["--port=1"]}, None, "serving.extra_args", "--port"),
    "settable-configuration": (
        "qwen3-32b",
        {"variants.sd.neuron_config": {"attn_cls": "evil.Attention"}},
        None,
        "variants.sd.neuron_config.attn_cls",
        "names code",
    ),
    "neuron-config-key": (
        "llama-3.1-405b",
        {"variants.sd-fp8.neuron_config": {"quantized-mlp-kernel-enabled": True}},
        None,
        "variants.sd-fp8.neuron_config.quantized-mlp-kernel-enabled",
        "hyphen",
    ),
    "neuron-config-dialect": (
        "qwen3-32b",
        {"engine": "0.29.0-sdk2.33.0"},
        None,
        "serving.neuron_config.save_sharded_checkpoint",
        "NxD Inference",
    ),
    "ami-driver": ("qwen3-32b", {}, "v20260714", "engine", "AMI v20260714 does not suit"),
    "endpoint-all-or-none": (
        "qwen3-32b",
        {"variants.sd.endpoint": "https://chat.example"},
        None,
        "variants",
        "base would be served by the pipeline",
    ),
    "endpoint-url": (
        "qwen3-32b",
        {"variants.base.endpoint": "https://chat.example", "variants.sd.endpoint": "chat"},
        None,
        "variants.sd.endpoint",
        "no http:// or",
    ),
    "endpoint-same": (
        "qwen3-32b",
        {"variants.base.endpoint": "https://chat.example/v1", "variants.sd.endpoint": "https://chat.example"},
        None,
        "variants.sd.endpoint",
        "ask the same server",
    ),
    "endpoint-settings": (
        "qwen3-32b",
        {"variants.sd.endpoint": "https://chat.example", "variants.sd.env": {"A": "b"}},
        None,
        "variants.sd",
        "env cannot be set",
    ),
}


def problems(preset, overrides, ami=None):
    with pytest.raises(ExperimentError) as caught:
        load_preset(preset, overrides=overrides, capacity=Capacity(ami=ami))
    return caught.value.problems
