"""Rules of the engine: what an image can serve, and which settings it takes."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment.effective import family
from specdecode.experiment.engine import Dialect
from specdecode.experiment.rules import native
from specdecode.experiment.rules.case import Finding, ServedCase

UNKNOWN = {
    "trace_tokengen_model": "leave it out: fused speculation traces no token generation model",
    "pad_token_id": "leave it out: it is an argument of inference_demo's generation",
}
"""Keys of published lines that NxD Inference does not take (models/config.py of v0.6.10598 and 4bcdc54: the first is
read there, and computed)."""
_FP8_ENV = {"XLA_HANDLE_SPECIAL_SCALAR": "1", "UNSAFE_FP8FNCAST": "1"}


def model_family(case: ServedCase) -> Iterator[Finding]:
    """The engine must serve the family. A native engine also needs it: much of its configuration depends on it."""
    served = case.engine.model_families
    for field, model in case.targets():
        if model.family is None and case.engine.dialect is Dialect.NATIVE_PLUGIN:
            message = f"the family of {model.id} is not given, and {case.engine.name} is configured by family"
            yield f"{field}.family", message, f"give one of {', '.join(served)}"
        if model.family and model.family not in served:
            yield (
                field,
                f"{case.engine.name} serves no {model.family} models",
                f"families it serves: {', '.join(served)}",
            )


def quantization(case: ServedCase) -> Iterator[Finding]:
    for variant in case.experiment.variants:
        field, target = f"variants.{variant.name}", case.experiment.target_of(variant)
        of_family = family(case.experiment, variant, case.engine).quantizations
        has = case.engine.quantizations if of_family is None else of_family
        if variant.quantization not in has:
            what = f"{variant.quantization}{f' for {target.family}' if of_family else ''}"
            yield f"{field}.quantization", f"{case.engine.name} has no {what}", f"it has {', '.join(has)}"
        elif case.engine.dialect is Dialect.NATIVE_PLUGIN:
            if target.rescale_fp8:
                message = "the native plugin loads a static FP8 checkpoint (ModelOpt) as published, without rescaling"
                yield f"{field}.target.rescale_fp8", message, "leave it out"
        elif variant.quantization == "fp8":
            if not target.rescale_fp8 and not target.import_prefix:
                message = f"{target.id} holds OCP FP8 (up to 448), and Neuron's FP8_EXP4 ends at 240"
                yield f"{field}.target.rescale_fp8", message, "set it to true, or import weights that are rescaled"
            env = {**case.engine.env, **case.experiment.serving.env, **variant.env}
            missing = [name for name, value in _FP8_ENV.items() if env.get(name) != value]
            if missing:
                message = f"FP8 needs {' and '.join(missing)} in the environment"
                yield f"{field}.env", message, ", ".join(f'{name}: "1"' for name in missing)
        elif target.rescale_fp8:
            yield f"{field}.quantization", f"{target.id} is rescaled to FP8, and the variant says bf16", "set it to fp8"


def neuron_keys(case: ServedCase) -> Iterator[Finding]:
    configs = {"serving.neuron_config": case.experiment.serving.neuron_config}
    configs |= {f"variants.{v.name}.neuron_config": v.neuron_config for v in case.experiment.variants}
    for field, config in configs.items():
        for key in config:
            if "-" in key:
                message = f"{key!r} has a hyphen: the library warns and ignores it, so that nothing changes"
                yield f"{field}.{key}", message, f"write {key.replace('-', '_')}"
            elif key in UNKNOWN and case.engine.dialect is not Dialect.NATIVE_PLUGIN:
                yield (
                    f"{field}.{key}",
                    f"{key!r} is unknown to NxD Inference, which warns and ignores it",
                    UNKNOWN[key],
                )


def dialect(case: ServedCase) -> Iterator[Finding]:
    if case.engine.dialect is Dialect.UPSTREAM:
        yield from _no_neuron_config(case)
    elif case.engine.dialect is Dialect.NATIVE_PLUGIN:
        yield from native.moved_keys(case)


def _no_neuron_config(case: ServedCase) -> Iterator[Finding]:
    configs = {"serving.neuron_config": case.experiment.serving.neuron_config}
    configs |= {f"variants.{v.name}.neuron_config": v.neuron_config for v in case.experiment.variants}
    for field, config in configs.items():
        if config:
            message = f"{case.engine.name} is vLLM without Neuron, which has no Neuron configuration"
            yield field, message, f"leave out {', '.join(config)} (serving.extra_args gives other arguments)"


def ami(case: ServedCase) -> Iterator[Finding]:
    ami, runtime = case.capacity.ami, case.engine.runtime
    if ami is None:
        return
    early, late = ami < runtime.oldest_ami, runtime.newest_ami is not None and ami > runtime.newest_ami
    upper = f"to {runtime.newest_ami}" if runtime.newest_ami else "or later"
    others = f", but not {' or '.join(runtime.refused_amis)}" if runtime.refused_amis else ""
    fix = f"deploy the node class with {runtime.oldest_ami} {upper}{others}"
    if early or late:
        message = (
            f"AMI {ami} does not suit {case.engine.name} (runtime {runtime.version}, driver {runtime.newest_driver})"
        )
        yield "engine", message, fix
    elif ami in runtime.refused_amis:
        yield "engine", f"AMI {ami} has a kernel that panics with any driver, so {case.engine.name} cannot use it", fix
