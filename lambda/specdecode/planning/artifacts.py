"""What a run makes: compiled artifacts and marks of arms that started. What decides one, and which lie in the bucket.

The fingerprint of an artifact is the hash of everything that decides it, and of nothing else. Why it is so: ADR 65;
ADR 198 for the marks.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from specdecode import finished, s3_keys
from specdecode.experiment.base import Frozen
from specdecode.experiment.effective import arguments, family, neuron_config, serving_env
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import CompileOn, Experiment, ServedExperiment
from specdecode.experiment.variants import ModelRef, ServedVariant
from specdecode.store import Store


class Inventory(Frozen):
    """What lies in the bucket: whole folders as prefixes (`models/…/`), and keys of marks (`state/engines/….json`)."""

    prefixes: frozenset[str] = frozenset()
    contents: Mapping[str, str] = {}
    """Folder -> its hash."""

    def has(self, prefix: str) -> bool:
        return prefix in self.prefixes


class Taken(NamedTuple):
    """The artifact that an arm takes."""

    fingerprint: str = ""
    """Empty for a server that already runs."""
    fallback: str = ""
    """Fingerprint of what the node compiles if the artifact of a CPU node does not load. Empty without such a one."""
    is_missing: bool = False
    """Whether it is still to be compiled."""


def taken(experiment: Experiment, engine: Engine, inventory: Inventory) -> dict[str, Taken]:
    """The artifact of each arm. An artifact of CPU nodes has a fingerprint of its own. If the bucket has one that a
    node with devices compiled, that is taken; so an artifact that did not load is tried again only until there is one.
    """
    if not isinstance(experiment, ServedExperiment):
        return dict.fromkeys((variant.name for variant in experiment.variants), Taken())

    def has(made: str) -> bool:
        return inventory.has(s3_keys.compiled_prefix(made))

    found = {}
    for variant in experiment.on_node:
        made, fallback = fingerprint(experiment, variant, engine), ""
        if experiment.compile.on is CompileOn.CPU and not has(made):
            made, fallback = fingerprint(experiment, variant, engine, without_devices=True), made
        found[variant.name] = Taken(made, fallback, is_missing=engine.artifact is not None and not has(made))
    return found


def needed_prefixes(experiment: Experiment, engine: Engine) -> list[str]:
    """Prefixes of all models and artifacts of `experiment`, by first use, and the keys of its kinds of arms."""
    if not isinstance(experiment, ServedExperiment):
        return []
    models = [model.prefix for model in experiment.staged]
    compiled = experiment.on_node if engine.artifact else ()
    ways = (False, True) if experiment.compile.on is CompileOn.CPU else (False,)
    artifacts = [
        s3_keys.compiled_prefix(fingerprint(experiment, variant, engine, without_devices=way))
        for variant in compiled
        for way in ways
    ]
    return list(dict.fromkeys([*models, *artifacts, *first_of_each_kind(experiment, engine)]))


def served_key(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> str:
    """Key of the mark that this kind of arm was served from this bucket: image, node, family, weights and method. Arms
    that differ in k, in a draft or in a setting are one kind.
    """
    family = experiment.target_of(variant).family or ""
    method = variant.speculation.method if variant.speculation else "plain"
    return s3_keys.served_key(engine.reference, experiment.node, family, variant.quantization, method)


def first_of_each_kind(experiment: ServedExperiment, engine: Engine) -> dict[str, ServedVariant]:
    """`served_key` -> the first arm of that kind."""
    found: dict[str, ServedVariant] = {}
    for variant in experiment.on_node:
        found.setdefault(served_key(experiment, variant, engine), variant)
    return found


def groups(checked: tuple[str, ...], *, size: int) -> list[tuple[str, ...]]:
    """The arms `checked`, those that fit on the node together in one group."""
    return [checked[at : at + size] for at in range(0, len(checked), size)]


def to_check(experiment: Experiment, engine: Engine, known: Collection[str]) -> tuple[str, ...]:
    """The arms to check: the first of each kind, unless its key is `known`. Empty if the experiment wants no check."""
    if not isinstance(experiment, ServedExperiment) or not experiment.start_check:
        return ()
    kinds = first_of_each_kind(experiment, engine)
    return tuple(variant.name for key, variant in kinds.items() if key not in known)


def read_inventory(s3: Any, *, bucket: str, prefixes: Iterable[str]) -> Inventory:
    """Which of `prefixes` are in `bucket`, folders only if a listing shows no damage; `s3` is a boto3 client."""
    store = Store(s3=s3, bucket=bucket)
    folders = [item for item in prefixes if item.endswith("/")]
    contents = {item: found for item in folders if (found := finished.find(store, item).content)}
    keys = [item for item in prefixes if not item.endswith("/")]
    marks = [key for key in keys if s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents")]
    return Inventory(prefixes=frozenset([*contents, *marks]), contents=contents)


def deciding(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, Any]:
    """Everything that decides the artifact of `variant`, as plain data. Variables of the environment count unless the
    engine lists them as ones of the runtime only: a variable that nobody classified costs a compile at worst, and never
    serves an artifact that was made for other settings.
    """
    serving, speculation = experiment.serving_of(variant), variant.speculation
    return {
        "image": engine.reference,
        "target": _identity(experiment.target_of(variant)),
        "quantization": variant.quantization,
        "tensor_parallel_size": serving.tensor_parallel_size,
        "logical_neuron_core": serving.logical_neuron_core,
        "max_num_seqs": serving.max_num_seqs,
        "max_model_len": serving.max_model_len,
        "extra_args": arguments(experiment, variant, engine),
        "hf_overrides": family(experiment, variant, engine).hf_overrides,
        "env": {k: v for k, v in serving_env(experiment, variant, engine).items() if k not in engine.runtime_env},
        "neuron_config": neuron_config(experiment, variant, engine),
        "speculation": speculation
        and {
            "method": speculation.method.value,
            "draft": _identity(speculation.draft),
            "num_speculative_tokens": speculation.num_speculative_tokens,
            "draft_max_model_len": speculation.draft_max_model_len or serving.max_model_len,
            **({"by_batch_size": ranges} if (ranges := speculation.num_speculative_tokens_per_batch_size) else {}),
        },
    }


def fingerprint(
    experiment: ServedExperiment, variant: ServedVariant, engine: Engine, *, without_devices: bool = False
) -> str:
    """20 hexadecimal digits; equal if and only if `deciding` is equal. `without_devices`: of what is compiled on a CPU
    node, which has a folder of its own: one that does not load is never taken for what a server with devices has
    compiled, nor written over.
    """
    decides = deciding(experiment, variant, engine)
    if without_devices and engine.artifact and engine.artifact.on_cpu:
        decides["without_devices"] = engine.artifact.on_cpu.env
    text = json.dumps(decides, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:20]


def _identity(model: ModelRef) -> dict[str, Any]:
    """The fields that identify the bytes of a model: of the hub, or of a prefix of the bucket."""
    origin = {"import_prefix": model.import_prefix} if model.import_prefix else {}
    same = {"id": model.id, "revision": model.revision, "kind": model.kind.value, "rescale_fp8": model.rescale_fp8}
    return same | origin
