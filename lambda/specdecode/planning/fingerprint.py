"""The fingerprint of a compiled artifact: the hash of everything that decides the artifact, and of nothing else.

Why it is so: ADR 65.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from specdecode.experiment.effective import arguments, family, neuron_config, serving_env
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import ModelRef, ServedExperiment, ServedVariant


def deciding(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, Any]:
    """Everything that decides the artifact of `variant`, as plain data.

    Variables of the environment count unless the engine lists them as ones of the runtime only: a variable that
    nobody classified costs a compile at worst, and never serves an artifact that was made for other settings.
    """
    serving, speculation = experiment.serving, variant.speculation
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
    """20 hexadecimal digits; equal if and only if `deciding` is equal.

    `without_devices`: of what is compiled on a CPU node, which has a folder of its own: one that does not load is
    never taken for what a server with devices has compiled, nor written over.
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
