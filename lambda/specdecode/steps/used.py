"""What an arm's server really used, held against what we assumed: neuron_config.json of its artifact, and the words in
which vLLM says its configuration when it starts.

NxD Inference writes that file with every setting that the model has (`InferenceConfig.save`, NxD Inference 0.6.10598).
vLLM logs `Initializing a V1 LLM engine (v%s) with config: %s` (vllm/v1/engine/core.py of 0.9.1, 0.16.0, 0.29.0 and
0.32.0; vllm/engine/llm_engine.py of 0.9.1 says V0), after plugins have changed the configuration; its form is that of
VllmConfig.__str__ and SpeculativeConfig.__repr__.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from specdecode import names, s3_keys
from specdecode.experiment.effective import effective
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.variants import ServedVariant
from specdecode.kubernetes.client import Kubernetes, KubernetesError
from specdecode.manifests.pods import CONTAINER
from specdecode.steps.run import Run
from specdecode.store import Store
from specdecode.untrusted import parse_json

FILE = "neuron_config.json"
MOST = 20
"""Most differences of an arm that are told."""


WORDS = re.compile(r"Initializing a V[01] LLM engine \(v[^)]*\) with config: .*")
BEGINNING = 4 * 1024 * 1024
"""Bytes of a log in which they are looked for: they come before the weights are loaded and anything is compiled."""
LONGEST_WORDS = 8_000
FLAGS = {
    "enable_prefix_caching": "--enable-prefix-caching",
    "enable_chunked_prefill": "--enable-chunked-prefill",
    "chunked_prefill_enabled": "--enable-chunked-prefill",
    "dtype": "--dtype",
    "kv_cache_dtype": "--kv-cache-dtype",
    "enforce_eager": "--enforce-eager",
    "seed": "--seed",
}
"""A setting as vLLM says it (0.9.1 has another name for one) -> the argument that sets it."""


def keep_words(kube: Kubernetes, store: Store, *, run_id: str, variant: str, pod: str) -> None:
    """Keep the words of an arm's server, once. If its log cannot be read or has none, there is nothing to compare."""
    key = s3_keys.run_key(run_id, "used", f"{variant}.txt")
    if store.read(key) is not None:
        return
    try:
        log = kube.logs(pod, namespace=names.NAMESPACE, container=CONTAINER, beginning=BEGINNING)
    except KubernetesError:
        return
    if found := WORDS.search(log):
        store.write(key, found[0][:LONGEST_WORDS], content_type="text/plain; charset=utf-8")


def differences(run: Run, store: Store) -> Iterator[str]:
    """A sentence for each arm that differs from what was assumed, in its kept artifact file or its servers' words: this
    run's, and those of the runs that it resumes.
    """
    experiment, engine = run.plan.served, run.plan.engine
    arms = run.arms
    kept = store.keys(s3_keys.run_key(run.state.run_id, "used", ""))
    for variant in experiment.on_node:
        arm = arms.get(variant.name)
        data = store.read(s3_keys.compiled_prefix(arm.fingerprint) + FILE) if arm and engine.artifact else None
        if data is not None:
            store.write(s3_keys.run_key(run.state.run_id, "used", f"{variant.name}.json"), data)
            yield from _of_artifact(data, experiment, variant, engine)
        own = [key for key in kept if key.endswith(f"/{variant.name}.txt")]
        words = [(store.read(key) or b"").decode(errors="replace") for key in own]
        yield from dict.fromkeys(_of_words(words, experiment, variant, engine))


def _of_words(
    words: Iterable[str], experiment: ServedExperiment, variant: ServedVariant, engine: Engine
) -> Iterator[str]:
    ours = said(experiment, variant, engine)
    for used in map(read, words):
        unlike_ours = sorted(name for name in ours.keys() & used.keys() if ours[name] != used[name])
        told = "; ".join(f"{name} is {used[name][:100]}, assumed {ours[name]}" for name in unlike_ours)
        if told:
            yield f"{variant.name} was served otherwise than assumed: {told}"


def _of_artifact(data: bytes, experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> Iterator[str]:
    try:
        document = parse_json(data)
    except ValueError as error:
        yield f"{variant.name}: {FILE} of its artifact cannot be read: {error}"
        return
    used = document.get("neuron_config") if isinstance(document, Mapping) else None
    found = sorted(set(unlike(assumed(experiment, variant, engine), used))) if isinstance(used, Mapping) else []
    if found:
        more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
        yield f"{variant.name} was compiled otherwise than assumed: {'; '.join(found[:MOST])}{more}"


def read(words: str) -> dict[str, str]:
    """The settings that vLLM's words name, the first of each name: `model` is the target's."""
    found: dict[str, str] = {}
    for name, quoted, plain in re.findall(r"\b(\w+)=(?:'([^']*)'|([^,()]*))", words):
        found.setdefault(name, quoted or plain.strip().removeprefix("torch."))
    if found.get("speculative_config") == "None":
        found.pop("method", None)  # which is then something else's
    return found


def said(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, str]:
    """The settings of an arm that are known, by vLLM's names, as its words have them."""
    flags, drafts = effective(experiment, variant, engine), variant.speculation
    serving = experiment.serving_of(variant)
    known: dict[str, Any] = {name: flags[flag] for name, flag in FLAGS.items() if flags.get(flag, "auto") != "auto"}
    known |= {
        "tensor_parallel_size": serving.tensor_parallel_size,
        "max_seq_len": serving.max_model_len,
        "speculative_config": "SpeculativeConfig" if drafts else None,
    }
    if drafts:
        known["method"] = engine.methods[drafts.method].vllm_method
        known["num_spec_tokens"] = drafts.num_speculative_tokens
    return {name: str(value) for name, value in known.items()}


def assumed(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, Any]:
    """The settings of an arm by NxD Inference's names: ours over the defaults that its engine's file says."""
    serving = experiment.serving_of(variant)
    shape = {
        "tp_degree": serving.tensor_parallel_size,
        "batch_size": serving.max_num_seqs,
        "seq_len": serving.max_model_len,
        "speculation_length": variant.speculation.num_speculative_tokens if variant.speculation else 0,
    }
    return shape | effective(experiment, variant, engine)


def unlike(ours: Mapping[str, Any], used: Mapping[str, Any], below: str = "") -> Iterator[str]:
    """What differs, of the settings that both have. What the file lacks may have another name there."""
    for key in sorted(ours.keys() & used.keys()):
        here, there = ours[key], used[key]
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            yield from unlike(here, there, f"{below}{key}.")
        elif here != there:
            yield f"{below}{key} is {json.dumps(there)[:100]}, assumed {json.dumps(here)[:100]}"
