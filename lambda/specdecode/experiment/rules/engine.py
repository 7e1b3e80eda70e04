"""Rules of the engine: what an image can serve, and how it wants to be told."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment.engine import Dialect
from specdecode.experiment.model import Method, ModelKind
from specdecode.experiment.rules.case import Case, Finding

_KIND_OF = {
    Method.VANILLA_DRAFT: ModelKind.MODEL,
    Method.FUSED_DRAFT: ModelKind.MODEL,
    Method.EAGLE: ModelKind.EAGLE,
    Method.EAGLE3: ModelKind.EAGLE3,
    Method.MEDUSA: ModelKind.MEDUSA,
}
_FP8_ENV = {"XLA_HANDLE_SPECIAL_SCALAR": "1", "UNSAFE_FP8FNCAST": "1"}


def model_family(case: Case) -> Iterator[Finding]:
    served = case.engine.model_families
    for field, model in case.targets():
        if model.family and model.family not in served:
            yield (
                field,
                f"{case.engine.name} serves no {model.family} models",
                f"families it serves: {', '.join(served)}",
            )


def method(case: Case) -> Iterator[Finding]:
    for variant in case.experiment.variants:
        speculation = variant.speculation
        if speculation and speculation.method not in case.engine.methods:
            reason = case.engine.refused[speculation.method]
            can = ", ".join(case.engine.methods) or "nothing"
            yield (
                f"variants.{variant.name}.speculation.method",
                f"{case.engine.name} cannot do {speculation.method}: {reason}",
                f"this engine can do {can}; `specdecode engines` shows which engine can do what",
            )


def draft_kind(case: Case) -> Iterator[Finding]:
    for variant in case.experiment.variants:
        if (speculation := variant.speculation) and speculation.draft.kind is not _KIND_OF[speculation.method]:
            wanted = _KIND_OF[speculation.method]
            yield (
                f"variants.{variant.name}.speculation.draft.kind",
                f"{speculation.draft.id} is of kind {speculation.draft.kind}, and {speculation.method} needs {wanted}",
                f"give weights of kind {wanted}, or another method (`kind` says what the weights are)",
            )


def draft_family(case: Case) -> Iterator[Finding]:
    for variant in case.experiment.variants:
        if not (speculation := variant.speculation):
            continue
        target, draft = case.experiment.target_of(variant), speculation.draft
        if target.family and draft.family and target.family != draft.family:
            yield (
                f"variants.{variant.name}.speculation.draft",
                f"{draft.id} ({draft.family}) does not share the vocabulary of {target.id} ({target.family})",
                "choose a draft of the target's family",
            )
        if draft.size_gib >= target.size_gib:
            yield (
                f"variants.{variant.name}.speculation.draft",
                f"{draft.id} ({draft.size_gib:g} GiB) is not smaller than {target.id} ({target.size_gib:g} GiB)",
                "a draft must cost much less than a step of the target",
            )


def quantization(case: Case) -> Iterator[Finding]:
    for variant in case.experiment.variants:
        field, target = f"variants.{variant.name}", case.experiment.target_of(variant)
        if variant.quantization not in case.engine.quantizations:
            can = ", ".join(case.engine.quantizations)
            yield f"{field}.quantization", f"{case.engine.name} has no {variant.quantization}", f"it has {can}"
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


def neuron_keys(case: Case) -> Iterator[Finding]:
    configs = {"serving.neuron_config": case.experiment.serving.neuron_config}
    configs |= {f"variants.{v.name}.neuron_config": v.neuron_config for v in case.experiment.variants}
    for field, config in configs.items():
        for key in config:
            if "-" in key:
                message = f"{key!r} has a hyphen: the library warns and ignores it, so that nothing changes"
                yield f"{field}.{key}", message, f"write {key.replace('-', '_')}"


def dialect(case: Case) -> Iterator[Finding]:
    if case.engine.dialect is Dialect.UPSTREAM:
        yield from _no_neuron_config(case)
    if case.engine.dialect is not Dialect.NATIVE_PLUGIN:
        return
    if "save_sharded_checkpoint" in case.experiment.serving.neuron_config:
        message = "save_sharded_checkpoint belongs to NxD Inference, which the native plugin does not use"
        yield "serving.neuron_config.save_sharded_checkpoint", message, "leave it out"


def _no_neuron_config(case: Case) -> Iterator[Finding]:
    configs = {"serving.neuron_config": case.experiment.serving.neuron_config}
    configs |= {f"variants.{v.name}.neuron_config": v.neuron_config for v in case.experiment.variants}
    for field, config in configs.items():
        if config:
            message = f"{case.engine.name} is vLLM without Neuron, which has no Neuron configuration"
            yield field, message, f"leave out {', '.join(config)} (serving.extra_args gives other arguments)"


def ami(case: Case) -> Iterator[Finding]:
    ami, runtime = case.capacity.ami, case.engine.runtime
    if ami is None:
        return
    fits = runtime.oldest_ami <= ami and (runtime.newest_ami is None or ami <= runtime.newest_ami)
    if not fits or ami in runtime.refused_amis:
        upper = f"to {runtime.newest_ami}" if runtime.newest_ami else "or later"
        message = (
            f"AMI {ami} does not suit {case.engine.name} (runtime {runtime.version}, driver {runtime.newest_driver})"
        )
        yield "engine", message, f"deploy the node class with {runtime.oldest_ami} {upper}"
