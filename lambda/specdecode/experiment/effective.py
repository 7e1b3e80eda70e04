"""The effective configuration of one arm (what we set, and the engine's defaults), and how two arms differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Dialect, Engine
from specdecode.experiment.engine_parts import FamilySupport
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.variants import ServedVariant

OF_THE_DRAFT = ("draft_", "fused_spec_", "speculation_")
"""Prefix of NxD Inference's keys that concern only the draft."""
WORKERS = "CPUs of the workers"
"""What `pinned` tells, among a run's versions."""
SKIP = "NEURON_SKIP_EFA_AFFINITY"
"""Not "0": workers do not look for EFA interfaces. The files of native engines set it."""
DRIVES_A_DEVICE = (Dialect.OVERRIDE_NEURON_CONFIG, Dialect.NXDI_PLUGIN, Dialect.NATIVE_PLUGIN)


def family(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> FamilySupport:
    """Support of the engine for the family of the arm's target."""
    return engine.families.get(experiment.target_of(variant).family or "", FamilySupport())


def neuron_config(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, Any]:
    """The Neuron configuration of one arm, later ones winning: engine, family, experiment, method, variant."""
    speculation = variant.speculation
    method = engine.methods.get(speculation.method) if speculation else None
    return {
        **engine.neuron_config,
        **family(experiment, variant, engine).neuron_config,
        **experiment.serving.neuron_config,
        **(method.neuron_config if method else {}),
        **variant.neuron_config,
    }


def batch_sizes(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> list[int]:
    """Batches that the arm is compiled for, to which the engine pads others: the smallest first. Empty if it pads none.
    The native plugin: `num_seqs_buckets`, or the powers of two (vllm-neuron, reference-configuration). NxD Inference:
    `token_generation_batches` and the largest batch (modules/autobucketing.py).
    """
    most, config = experiment.serving_of(variant).max_num_seqs, neuron_config(experiment, variant, engine)
    if not engine.on_neuron:
        return []
    if engine.dialect is Dialect.NATIVE_PLUGIN:
        return whole_numbers(config.get("num_seqs_buckets")) or [*(2**n for n in range((most - 1).bit_length())), most]
    return sorted({*whole_numbers(config.get("token_generation_batches")), most})


def whole_numbers(value: Any) -> list[int]:
    """The value as a list of whole numbers. Empty if it is none."""
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return []
    return value


def serving_env(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, str]:
    """The environment of one arm's server, later ones winning: engine, experiment, variant."""
    return {**engine.env, **experiment.serving.env, **variant.env}


def arguments(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> list[str]:
    """Further arguments of `vllm serve`, later ones winning: engine, experiment, variant."""
    serving = experiment.serving_of(variant)
    own = [one.replace("{max_num_seqs}", str(serving.max_num_seqs)) for one in engine.serve_args]
    return [*own, *serving.extra_args, *variant.extra_args]


def flags(words: list[str]) -> dict[str, Any]:
    """`--block-size 32 --no-async-scheduling` -> `{"--block-size": "32", "--async-scheduling": False}`."""
    out: dict[str, Any] = {}
    rest = list(words)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if equals:
            out[flag] = value
        elif rest and not rest[0].startswith("--"):
            out[flag] = rest.pop(0)
        elif flag.startswith("--no-"):
            out["--" + flag.removeprefix("--no-")] = False
        else:
            out[flag] = True
    return out


def said(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, Any]:
    """Every setting of one arm that decides its speed and that we set, without its speculation."""
    target = experiment.target_of(variant)
    return {
        "weights": f"{target.id}@{target.revision}",
        "quantization": variant.quantization,
        **neuron_config(experiment, variant, engine),
        **flags(arguments(experiment, variant, engine)),
        **{f"${name}": value for name, value in serving_env(experiment, variant, engine).items()},
    }


def effective(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, Any]:
    """`said` over the engine's defaults, and under the settings that speculation forces."""
    defaults = engine.defaults
    if variant.speculation is None:
        return {**defaults.plain, **said(experiment, variant, engine)}
    forced = {key: defaults.speculating[key] for key in defaults.forced}
    return {**defaults.speculating, **said(experiment, variant, engine), **forced}


@dataclass(frozen=True)
class SettingDifference:
    """One setting in which two arms differ."""

    setting: str
    here: Any
    there: Any
    said: bool
    """Whether the experiment sets it for one of the arms. If not, a default of the engine does."""

    def __str__(self) -> str:
        return f"{self.setting}: {_shown(self.here)} against {_shown(self.there)}"


def differences(
    experiment: ServedExperiment, variant: ServedVariant, baseline: ServedVariant, engine: Engine
) -> Iterator[SettingDifference]:
    """Settings in which `variant` and its `baseline` differ beside speculation, with the engine's defaults."""
    if engine.dialect not in DRIVES_A_DEVICE:
        return
    ours: set[str] = set()
    for one in (variant, baseline):
        if one.speculation and (method := engine.methods.get(one.speculation.method)):
            ours |= method.neuron_config.keys()
    here, there = (effective(experiment, one, engine) for one in (variant, baseline))
    spoken = _own(variant) | _own(baseline)
    for setting in sorted((here.keys() | there.keys()) - ours):
        if setting.startswith(OF_THE_DRAFT):
            continue
        if here.get(setting) != there.get(setting):
            yield SettingDifference(setting, here.get(setting), there.get(setting), said=setting in spoken)


def _own(variant: ServedVariant) -> set[str]:
    """Settings that a variant has for itself."""
    own = {*variant.neuron_config, *flags(list(variant.extra_args)), *(f"${name}" for name in variant.env)}
    return own | ({"weights", "quantization"} if variant.target or variant.quantization != "bf16" else set())


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"{len(value)} entries" if len(value) > 8 else str(value)
    if value is None:
        return "unset"
    return str(value) if not isinstance(value, bool) else "on" if value else "off"


def on_node_of(capacity: Capacity, experiment: ServedExperiment, engine: Engine) -> ServedExperiment:
    """The experiment with workers that look for the node's EFA interfaces, if it has some and the experiment says
    nothing else. By them workers of the native plugin pin their CPUs. A worker pins its threads to the NUMA node of the
    interface beside its Neuron device, and ends if there is none, unless a variable says not to look
    (vllm-project/vllm-neuron, vllm_neuron/vllm/worker/neuron_worker.py and vllm_neuron/utils/hardware_config.py).
    Karpenter attaches an EFA interface only if a node class asks for it.
    """
    serving = experiment.serving
    if SKIP not in engine.env or SKIP in serving.env or not capacity.of(experiment.node).efa_interfaces:
        return experiment
    return experiment.model_copy(update={"serving": serving.model_copy(update={"env": {**serving.env, SKIP: "0"}})})


def pinned(experiment: ServedExperiment, engine: Engine) -> str | None:
    """How workers pinned their CPUs, for the report. None if the engine does not pin any."""
    if SKIP not in engine.env:
        return None
    skipped = experiment.serving.env.get(SKIP, engine.env[SKIP]) != "0"
    return f"not pinned ({SKIP})" if skipped else "pinned by the node's EFA interfaces"
