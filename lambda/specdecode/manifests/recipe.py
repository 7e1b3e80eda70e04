"""How to serve an arm again by hand: shell source that needs the bucket, the engine's image and its devices."""

from __future__ import annotations

from specdecode.experiment.effective import serving_env
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import ServedExperiment, ServedVariant
from specdecode.manifests.pods import word
from specdecode.manifests.serve_command import serve_words


def recipe(
    experiment: ServedExperiment, variant: ServedVariant, engine: Engine, *, bucket: str, artifact: str | None
) -> str:
    """The lines to paste into a shell in the engine's image: fetch weights and artifact, then the pod's own command.

    `bucket`: `s3://name/`. `artifact`: its prefix there; None if the engine compiles nothing. The server listens on
    this machine only, since nobody knows a pod's address here.
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
    return f"with {devices} Neuron device{'s' if devices != 1 else ''}" if devices and engine.on_neuron else "on a CPU"
