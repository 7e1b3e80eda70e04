"""What cannot work together. Every rule is in RULES, and all violations of all rules are reported at once."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from specdecode.experiment.capacity import Capacity
from specdecode.experiment.endpoints import Document
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import AnyExperiment, ServedExperiment
from specdecode.experiment.problems import Problem
from specdecode.experiment.rules import arms, endpoints, engine, native, node, prompts, speculation, workload
from specdecode.experiment.rules.case import Case, EndpointCase, Finding, ServedCase

_LEVIATHAN = "Leviathan et al., arXiv 2211.17192"
_NATIVE = "guides/reference-configuration.md of the native plugin"
_SETS = "assets/prompts/sets"
_DRA = "Neuron DRA documentation (deploy/eks/dra)"
Of = TypeVar("Of")
Rules = dict[str, tuple[Callable[[Of], Iterator[Finding]], str]]
"""Identifier -> the rule and its source."""
OF_THE_DOCUMENT: Rules[Document] = {
    "endpoint-all-or-none": (endpoints.all_or_none, "arms on the node and arms elsewhere would not share one load"),
    "endpoint-settings": (endpoints.settings, "specdecode does not start a server that already runs"),
}
OF_BOTH: Rules[Case] = {
    "unique-names": (workload.unique_names, "names are keys in S3 and values of CloudWatch dimensions"),
    "compare-to": (workload.compare_to, "a comparison has two arms"),
    "published": (workload.published, "figures are laid beside what this experiment measures"),
    "clients": (workload.clients, "specdecode.experiment.sizing, docs/benchmarks.md"),
    "thinking": (workload.thinking, "Qwen3 model card: enable_thinking"),
    "prompt-text": (prompts.texts, "assets/prompts/cases.yaml"),
    "prompt-set": (prompts.sets, _SETS),
}
OF_SERVED: Rules[ServedCase] = {
    "sweep-adaptive": (arms.adaptive, "the advisor compares draft and k of arms that differ in nothing else"),
    "same-serving": (arms.same_serving, "a speed-up is of speculation only if both arms are served alike otherwise"),
    "reading": (arms.reading, "vLLM: prompt_logprobs of /v1/completions; specdecode.forecast"),
    "hold": (arms.hold, "the advisor may serve an arm again as long as the sweep goes on"),
    "model-family": (engine.model_family, "assets/engines: what the image's model library has"),
    "method-supported": (speculation.method, "assets/engines: Neuron's vLLM user guide, known issue 5"),
    "method-family": (
        speculation.method_family,
        "the model code: NxD Inference's models/, the native plugin's registry",
    ),
    "method-needs": (speculation.method_needs, "the method's tutorial and example for the native plugin"),
    "arms-alike": (arms.alike, "assets/engines: what an engine takes by itself, with and without speculation"),
    "draft-verified": (speculation.verified, "NxD Inference v0.6.10598, models/model_base.py: _token_gen_forward"),
    "k-by-load": (speculation.k_by_load, "assets/engines: vLLM's own, from 0.25 on (vllm/config/speculative.py)"),
    "draft-kind": (speculation.draft_kind, "vLLM's Neuron plugin takes any draft of method eagle for an EAGLE head"),
    "draft-of-family": (speculation.draft_family, _LEVIATHAN),
    "tensor-parallel": (node.tensor_parallel, f"{_DRA}: 8 physical cores a device"),
    "node-deployed": (node.deployed, "docs/settings.md: node_type"),
    "node-engine": (node.drives, "specdecode.experiment.shapes"),
    "claim-size": (node.claim, f"{_DRA}: devicegroup1_id, devicegroup4_id, devicegroup8_id, devicegroup16_id"),
    "device-memory": (node.hbm, "Trainium2: 96 GiB of HBM a device"),
    "fits-node": (node.fits_node, "Karpenter's instance types: what pods can have"),
    "lengths": (workload.lengths, "vLLM refuses requests beyond max_model_len"),
    "greedy": (workload.greedy, "the engine's file (greedy_only)"),
    "prompt-fits": (prompts.fits, "vLLM refuses requests beyond max_model_len; specdecode.prompts.bound"),
    "quantization": (engine.quantization, "neuronx-distributed, quantization/README_rescaling_fp8_for_neuron.md"),
    "settable-variable": (engine.variables, "specdecode.experiment.settable: an experiment is data"),
    "settable-argument": (engine.arguments, "specdecode.experiment.settable: an experiment is data"),
    "settable-configuration": (
        engine.configuration,
        "NxD Inference's NeuronConfig: attn_cls, quantized_checkpoints_path",
    ),
    "neuron-config-key": (engine.neuron_keys, "NxD Inference: NeuronConfig warns of unexpected keyword arguments"),
    "batched-tokens": (
        engine.batched_tokens,
        "vLLM: config/scheduler.py, verify_max_model_len; the plugin: utils/bucket_utils.py",
    ),
    "native-buckets": (native.buckets, _NATIVE),
    "native-segments": (native.segments, _NATIVE),
    "native-efa": (native.efa, "the plugin's vllm/worker/neuron_worker.py and utils/hardware_config.py"),
    "native-cpu-compile": (native.compiling_without_devices, "design/compilation/cpu_compilation.md of the plugin"),
    "compile-on-cpu": (engine.compiled_on_cpu, "assets/engines: artifact.on_cpu and its source"),
    "neuron-config-dialect": (engine.dialect, "Neuron's native vLLM plugin: configuration reference"),
    "ami-driver": (engine.ami, "Neuron runtime release notes; CHANGELOG.md of awslabs/amazon-eks-ami"),
}
OF_ENDPOINTS: Rules[EndpointCase] = {
    "prompt-set": (endpoints.hub_sets, _SETS),
    "endpoint-url": (endpoints.url, "assets/kubernetes/network-policies.yaml: what the benchmark's pods can reach"),
    "endpoint-same": (endpoints.same, "a comparison has two arms"),
}
RULES = {**OF_BOTH, **OF_SERVED, **OF_THE_DOCUMENT, **OF_ENDPOINTS}
"""All of them. A rule of both kinds of experiment may say more of one kind."""


def check_document(document: Document) -> list[Problem]:
    """Contradictions in a plain document between arms that the run serves and servers that already run."""
    return list(_found(OF_THE_DOCUMENT, document))


def check(experiment: AnyExperiment, served_by: Engine, capacity: Capacity) -> list[Problem]:
    """Every violation of every rule. Empty if the experiment can run."""
    found = _found(OF_BOTH, Case(experiment, served_by, capacity))
    if isinstance(experiment, ServedExperiment):
        engine = served_by.on_node(experiment.node, experiment.serving.devices)
        return [*found, *_found(OF_SERVED, ServedCase(experiment, engine, capacity))]
    return [*found, *_found(OF_ENDPOINTS, EndpointCase(experiment, served_by, capacity))]


def _found(of: Rules[Of], looked_at: Of) -> Iterator[Problem]:
    for name, (rule, source) in of.items():
        for field, message, fix in rule(looked_at):
            yield Problem(field=field, rule=name, message=message, source=source, fix=fix)
