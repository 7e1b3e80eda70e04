"""The `vllm serve` command of an arm: the same for compiling and for serving, as far as loaders allow, and by hand."""

import json
from typing import Any

from specdecode import names
from specdecode.escape import counted
from specdecode.experiment.effective import arguments, family, neuron_config, serving_env
from specdecode.experiment.engine import Dialect, Engine
from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.experiment.variants import ServedVariant
from specdecode.manifests.pods import word

LOCAL = "local"
"""Folder below the working directory with the copies that a server loads."""
QUIET = "--disable-log-requests"
"""For a server that people ask, so that no prompt is in its log. Newer servers log none (vllm-project/vllm#21739)."""
_HERE = "@PWD@"
"""Mark in JSON for the folder with the weights, until the JSON becomes shell source."""


def forgotten(engine: Engine) -> str:
    """Shell source before the command: away with variables of a driver or an image that end the engine.

    Workers of the native plugin set NEURON_RT_VISIBLE_CORES themselves, one core each, and refuse to start where it is
    set (vllm_neuron/vllm/worker/neuron_worker.py).
    """
    return "unset NEURON_RT_VISIBLE_CORES\n" if engine.dialect is Dialect.NATIVE_PLUGIN else ""


def serve_words(
    experiment: ServedExperiment, variant: ServedVariant, engine: Engine, *, compiled: bool, local: bool = False
) -> list[str]:
    """The command as words of shell source; `$PWD` and `$POD_IP` are left to the shell. `local`: of weights in LOCAL.

    `compiled`: it finds its artifact, whose neuron_config.json holds the configuration. NxD Inference's loaders set
    each override there by `setattr`: a mapping would take the place of an object (`on_device_sampling_config`), and the
    first request fail. Mappings are left to the artifact.
    """
    serving = experiment.serving_of(variant)
    target = experiment.target_of(variant)
    words = [
        "vllm serve",
        f'"$PWD/{_below(local)}{target.prefix.rstrip("/")}"',
        f"--served-model-name {word(served_model(experiment))}",
        '--host "$POD_IP"',
        f"--port {names.SERVE_PORT}",
        f"--tensor-parallel-size {serving.tensor_parallel_size}",
        f"--max-num-seqs {serving.max_num_seqs}",
        f"--max-model-len {serving.max_model_len}",
    ]
    config = neuron_config(experiment, variant, engine)
    if compiled and engine.dialect is not Dialect.NATIVE_PLUGIN:
        config = {key: value for key, value in config.items() if not isinstance(value, dict)}
    words += _neuron_words(config, engine)
    if variant.speculation:
        told = speculative_config(experiment, variant, engine)
        words.append(f"--speculative-config {_json_word(told, local=local)}")
        words += [word(part) for part in (engine.metrics.per_request or "").split()]
    if overrides := family(experiment, variant, engine).hf_overrides:
        words.append(f"--hf-overrides {_json_word(overrides)}")
    own = arguments(experiment, variant, engine)
    if experiment.hold and QUIET in engine.settable_args and QUIET not in own:
        words.append(QUIET)
    return words + [word(argument) for argument in own]


def served_model(experiment: Experiment) -> str:
    """Name under which every arm serves, so that all get the same requests (quantized arms too)."""
    return experiment.target.id


def speculative_config(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, Any]:
    """The value of `--speculative-config`. The draft's folder is relative to a mark for the working directory."""
    speculation = variant.speculation
    assert speculation is not None  # noqa: S101 (callers ask for speculative arms only)
    native = engine.dialect is Dialect.NATIVE_PLUGIN  # whose pages give a head no length: it has the target's
    ranges = [list(each) for each in speculation.num_speculative_tokens_per_batch_size]
    length = speculation.draft_max_model_len or (None if native else experiment.serving_of(variant).max_model_len)
    return {
        "model": f"{_HERE}/{speculation.draft.prefix.rstrip('/')}",
        "num_speculative_tokens": speculation.num_speculative_tokens,
        **({"num_speculative_tokens_per_batch_size": ranges} if ranges else {}),
        **({"max_model_len": length} if length else {}),
        "method": engine.methods[speculation.method].vllm_method,
    }


def _neuron_words(config: dict[str, Any], engine: Engine) -> list[str]:
    if not config:
        return []
    if engine.dialect is Dialect.OVERRIDE_NEURON_CONFIG:
        return [f"--override-neuron-config {_json_word(config)}"]
    key = "override_neuron_config" if engine.dialect is Dialect.NXDI_PLUGIN else "neuron_config"
    return [f"--additional-config {_json_word({key: config})}"]


def _below(local: bool) -> str:
    return f"{LOCAL}/" if local else ""


def _json_word(value: dict[str, Any], *, local: bool = False) -> str:
    return word(json.dumps(value)).replace(f"{_HERE}/", f"'\"$PWD\"'/{_below(local)}")


def recipe(
    experiment: ServedExperiment, variant: ServedVariant, engine: Engine, *, bucket: str, artifact: str | None
) -> str:
    """The lines to paste into a shell in the engine's image: fetch weights and artifact, then the pod's own command.

    `bucket`: `s3://name/`. `artifact`: its prefix there, if any. The server listens on this machine only.
    """
    folders = [model.prefix for model in experiment.models_of(variant)]
    env = dict(serving_env(experiment, variant, engine))
    exports = [f"export {name}={word(value)}" for name, value in env.items()]
    if engine.artifact and artifact:
        folders.insert(0, artifact)
        exports += [f"export {name}={word(value)}" for name, value in engine.artifact.serve_env.items()]
        exports.append(f'export {engine.artifact.variable}="$PWD/{artifact.rstrip("/")}"')
    command = serve_words(experiment, variant, engine, compiled=True)
    local = [part.replace('"$POD_IP"', "127.0.0.1") for part in command]
    return "\n".join(
        [
            f"# in {engine.reference}, {_devices(experiment, engine)}",
            *(f"aws s3 sync {word(bucket + folder)} {word(folder.rstrip('/'))}" for folder in folders),
            *exports,
            " \\\n  ".join(local),
        ]
    )


def _devices(experiment: ServedExperiment, engine: Engine) -> str:
    devices = experiment.serving.devices
    return f"with {counted(devices, 'Neuron device')}" if devices and engine.on_neuron else "on a CPU"
