"""For every rule an experiment that breaks it."""

import pytest
from specdecode.experiment import Capacity, ExperimentError, load_preset

NATIVE = "0.29.0-sdk2.33.0"
LLAMA = {"id": "acme/llama", "family": "llama3", "size_gib": 15}
HEAD = {"id": "acme/head", "kind": "dflash", "family": "llama3", "size_gib": 2}
NATIVELY = {"engine": NATIVE, "serving.neuron_config": {}, "target": LLAMA, "workload.thinking": None}


def head(method, draft, k):
    return {"method": method, "draft": draft, "num_speculative_tokens": k}


DFLASH = {
    **NATIVELY,
    "variants.sd.speculation": head("dflash", HEAD, 9),
    "serving.extra_args": ["--no-async-scheduling", "--no-enable-chunked-prefill", "--disable-hybrid-kv-cache-manager"],
}
EAGLE = {"id": "acme/eagle", "kind": "eagle", "family": "qwen3", "size_gib": 2}


def broken(says, overrides, *, preset="qwen3-32b", field=None, **capacity):
    """Part of the message, what is changed, and the field that is named: the first that is changed, unless given."""
    return preset, overrides, capacity, field or next(iter(overrides)), says


BROKEN = {
    "unique-names": broken("used 2 times", {"variants.sd.label": "Base"}, field="variants.Base.label"),
    "compare-to": broken("no other variant", {"variants.sd.compare_to": "bsae"}),
    "same-serving": broken("sd has max_num_seqs=2, and base has max_num_seqs=4", {"variants.sd.max_num_seqs": 2},
        field="variants.sd"),
    "reading": broken("'sd' is no arm that answers without speculation", {"variants.draft.reads": "sd"},
        preset="rehearsal-forecast"),
    "sweep-adaptive": broken("does not differ from base in speculation alone",
        {"variants.sd-k4.neuron_config": {"x": 1}}, preset="rehearsal-sweep", field="variants.sd-k4"),
    "hold": broken("served for the last time", {"hold": 30}, preset="rehearsal-sweep"),
    "compile-on-cpu": broken("0.29.0-sdk2.33.0 is not known to compile", {"compile.on": "cpu"},
        preset="qwen3-32b-native"),
    "node-engine": broken("a m7i.4xlarge has none", {"node": "m7i.4xlarge"}),
    "model-family": broken("serves no gemma3", {"target.family": "gemma3"}, field="target"),
    "method-supported": broken("fork", {"engine": "0.16.0-sdk2.31.1"}, field="variants.sd.speculation.method"),
    "method-family": broken("no eagle for qwen3",
        {"engine": "0.16.0-sdk2.31.1", "variants.sd.speculation": head("eagle", EAGLE, 5)},
        field="variants.sd.speculation.method"),
    "method-needs": broken("no known head has k = 8", {**DFLASH, "variants.sd.speculation.num_speculative_tokens": 8},
        preset="rehearsal", field="variants.sd.speculation.num_speculative_tokens"),
    "arms-alike": broken("--async-scheduling: off against on",
        {**NATIVELY, "variants.sd.speculation": head("eagle3", {**HEAD, "kind": "eagle3"}, 3)},
        preset="rehearsal", field="variants.sd"),
    "batched-tokens": broken("less than max_num_seqs 256",
        {"serving.max_num_seqs": 256, "serving.extra_args": ["--max-num-batched-tokens", "128"]},
        field="serving.extra_args"),
    "native-buckets": broken("end with max_num_seqs, which is 4",
        {**DFLASH, "serving.neuron_config": {"num_seqs_buckets": [1, 2]}}, preset="rehearsal",
        field="serving.neuron_config.num_seqs_buckets"),
    "native-segments": broken("[600]", {**DFLASH, "serving.neuron_config": {"kv_segment_size_buckets": [600]}},
        preset="rehearsal", field="serving.neuron_config.kv_segment_size_buckets"),
    "native-cpu-compile": broken("without devices", {**DFLASH, "serving.env": {"VLLM_NEURON_CPU_COMPILE": "1"}},
        preset="rehearsal", field="variants.sd.env.VLLM_NEURON_CPU_COMPILE"),
    "draft-verified": broken("verifies k - 1 of k drafts", {"variants.sd.speculation.num_speculative_tokens": 1}),
    "k-by-load": broken("speculates with one k at every load",
        {"variants.sd.speculation.num_speculative_tokens_per_batch_size": [[1, 4, 7]]}),
    "draft-kind": broken("needs eagle", {"variants.sd.speculation.method": "eagle"},
        field="variants.sd.speculation.draft.kind"),
    "draft-of-family": broken("vocabulary", {"variants.sd.speculation.draft.family": "llama3"},
        field="variants.sd.speculation.draft"),
    "tensor-parallel": broken("32 logical cores", {"serving.tensor_parallel_size": 64}),
    "claim-size": broken("no claim template for 2", {"serving.devices": 2, "serving.tensor_parallel_size": 8}),
    "device-memory": broken("1536 GiB of device memory", {"target.size_gib": 1600}, preset="llama-3.1-405b",
        field="variants.base"),
    "fits-node": broken("GiB of memory", {"target.size_gib": 1100}, preset="llama-3.1-405b", field="engine"),
    "lengths": broken("exceed max_model_len", {"workload.output_tokens": 1000}),
    "published": broken("did you mean 'base'?", {"published.0.base": "bass"}),
    "clients": broken("40 at a time takes 20 clients, and 16 is the most",
        {"workload.concurrency": [1, 40], "workload.streams_per_client": 2}),
    "greedy": broken("greedy at any temperature", {"workload.temperature": 0.7}),
    "thinking": broken("thinks by default", {"workload.thinking": None}),
    "prompt-text": broken("needs a text", {"workload.cases.count.text": " "}, preset="rehearsal"),
    "prompt-set": broken("not 000000000000",
        {"workload.prompts": [{"set": "work@" + "0" * 64, "categories": ["code"]}]},
        field="workload.cases.code.prompts"),
    "prompt-fits": broken("retrieval/long-theatre-archive has at least 2273 tokens, with 600 for the answer 2873",
        {"workload.prompts": [{"set": "work", "categories": ["retrieval"], "length": "long"}]},
        field="workload.cases.retrieval"),
    "quantization": broken("XLA_HANDLE_SPECIAL_SCALAR", {"variants.base-fp8.env": {}}, preset="llama-3.1-405b"),
    "settable-variable": broken("whom to ask", {"serving.env": {"AWS_ENDPOINT_URL": "http://evil"}},
        field="serving.env.AWS_ENDPOINT_URL"),
    "settable-argument": broken("--port", {"serving.extra_args": ["--port=1"]}),
    "settable-configuration": broken("names code", {"variants.sd.neuron_config": {"attn_cls": "evil.Attention"}},
        field="variants.sd.neuron_config.attn_cls"),
    "neuron-config-key": broken("hyphen", {"variants.sd-fp8.neuron_config": {"quantized-mlp-kernel-enabled": True}},
        preset="llama-3.1-405b", field="variants.sd-fp8.neuron_config.quantized-mlp-kernel-enabled"),
    "neuron-config-dialect": broken("NxD Inference", {"engine": "0.29.0-sdk2.33.0"},
        field="serving.neuron_config.save_sharded_checkpoint"),
    "native-efa": broken("no EFA interface", {"serving.env": {"NEURON_SKIP_EFA_AFFINITY": "0"}},
        preset="llama-3.1-8b-eagle3", field="variants.base", ami="v20260714"),
    "ami-driver": broken("AMI v20260714 does not suit", {}, field="engine", ami="v20260714"),
    "endpoint-all-or-none": broken("base would be served by the pipeline",
        {"variants.sd.endpoint": "https://chat.example"}, field="variants"),
    "endpoint-url": broken("no http:// or",
        {"variants.base.endpoint": "https://chat.example", "variants.sd.endpoint": "chat"},
        field="variants.sd.endpoint"),
    "endpoint-same": broken("ask the same server",
        {"variants.base.endpoint": "https://chat.example/v1", "variants.sd.endpoint": "https://chat.example"},
        field="variants.sd.endpoint"),
    "endpoint-settings": broken("env cannot be set",
        {"variants.sd.endpoint": "https://chat.example", "variants.sd.env": {"A": "b"}}, field="variants.sd"),
    "node-deployed": broken("this deployment's node is a trn2.3xlarge", {}, field="node", node="trn2.3xlarge",
        price_per_node_hour=3),
}  # fmt: skip


def problems(preset, overrides, **capacity):
    with pytest.raises(ExperimentError) as caught:
        load_preset(preset, overrides=overrides, capacity=Capacity(**capacity))
    return caught.value.problems
