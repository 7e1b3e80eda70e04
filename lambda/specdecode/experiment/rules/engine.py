"""Rules of the engine: what an image can serve, and how it wants to be told."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment.effective import arguments, family, flags
from specdecode.experiment.engine import Dialect
from specdecode.experiment.model import Method, ModelKind
from specdecode.experiment.rules import native
from specdecode.experiment.rules.case import Finding, ServedCase

_KIND_OF = {
    Method.VANILLA_DRAFT: ModelKind.MODEL,
    Method.FUSED_DRAFT: ModelKind.MODEL,
    Method.EAGLE: ModelKind.EAGLE,
    Method.EAGLE3: ModelKind.EAGLE3,
    Method.DFLASH: ModelKind.DFLASH,
    Method.MEDUSA: ModelKind.MEDUSA,
}
UNKNOWN = {
    "trace_tokengen_model": "leave it out: fused speculation traces no token generation model",
    "pad_token_id": "leave it out: it is an argument of inference_demo's generation",
}
"""Keys of published lines that NxD Inference does not take (models/config.py of v0.6.10598 and 4bcdc54: the first is
read there, and computed)."""
_FP8_ENV = {"XLA_HANDLE_SPECIAL_SCALAR": "1", "UNSAFE_FP8FNCAST": "1"}


def model_family(case: ServedCase) -> Iterator[Finding]:
    """One that the engine serves; a native engine sets and checks so much by it that it must be said."""
    served = case.engine.model_families
    for field, model in case.targets():
        if model.family is None and case.engine.dialect is Dialect.NATIVE_PLUGIN:
            message = f"{model.id} has no family: what {case.engine.name} needs for its kind of model is not known"
            yield f"{field}.family", message, f"say which it is, one of {', '.join(served)}"
        if model.family and model.family not in served:
            yield (
                field,
                f"{case.engine.name} serves no {model.family} models",
                f"families it serves: {', '.join(served)}",
            )


def method(case: ServedCase) -> Iterator[Finding]:
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


def method_family(case: ServedCase) -> Iterator[Finding]:
    """The model code of a family must have the method; a family that is not served at all is `model_family`'s."""
    for variant in case.experiment.variants:
        speculation, target = variant.speculation, case.experiment.target_of(variant)
        support = case.engine.methods.get(speculation.method) if speculation else None
        if speculation is None or support is None or support.families is None or target.family is None:
            continue
        if target.family in case.engine.model_families and target.family not in support.families:
            yield (
                f"variants.{variant.name}.speculation.method",
                f"{case.engine.name} has no {speculation.method} for {target.family}: its model code lacks the heads",
                f"families with {speculation.method} there: {', '.join(support.families)} (docs/reference/engines.md)",
            )


def method_needs(case: ServedCase) -> Iterator[Finding]:
    """Numbers of tokens that heads were trained for, and arguments without which the method does not start."""
    for variant in case.experiment.variants:
        speculation = variant.speculation
        support = case.engine.methods.get(speculation.method) if speculation else None
        if speculation is None or support is None:
            continue
        k, field = speculation.num_speculative_tokens, f"variants.{variant.name}"
        if support.tokens and k not in support.tokens:
            message = f"a {speculation.method} head drafts the block that it was trained for: no known head has k = {k}"
            can = ", ".join(map(str, support.tokens))
            yield (
                f"{field}.speculation.num_speculative_tokens",
                message,
                f"give your head's own k (its block less one): {can}",
            )
        given = flags(arguments(case.experiment, variant, case.engine))
        wanted = flags(list(support.needs_args))
        missing = [
            one
            for one, (flag, value) in zip(support.needs_args, wanted.items(), strict=True)
            if given.get(flag) != value
        ]
        if missing:
            message = f"{speculation.method} does not start without {' '.join(missing)}"
            yield f"{field}.extra_args", message, "add them to serving.extra_args, so that both arms have them"


def verified(case: ServedCase) -> Iterator[Finding]:
    for variant in case.experiment.variants:
        speculation = variant.speculation
        if speculation is None:
            continue
        field, most = f"variants.{variant.name}.speculation", case.engine.most_tokens_per_step
        if speculation.most_tokens_per_step is not None:
            message = f"{case.engine.name}'s file says what its step yields ({most})"
            yield f"{field}.most_tokens_per_step", message, "leave it out: it is for servers that already run"
        k = speculation.num_speculative_tokens
        if most.verified(k) < 1:
            message = (
                f"{case.engine.name} verifies k - 1 of k drafts, so that with k={k} no step yields more than one token"
            )
            yield f"{field}.num_speculative_tokens", message, "write 2 or more"


def k_by_load(case: ServedCase) -> Iterator[Finding]:
    if case.engine.k_by_batch_size:
        return
    for variant in case.experiment.variants:
        if variant.speculation and variant.speculation.num_speculative_tokens_per_batch_size:
            yield (
                f"variants.{variant.name}.speculation.num_speculative_tokens_per_batch_size",
                f"{case.engine.name} speculates with one k at every load",
                "leave it out; each k is an arm of its own there",
            )


def draft_kind(case: ServedCase) -> Iterator[Finding]:
    for variant in case.experiment.variants:
        if (speculation := variant.speculation) and speculation.draft.kind is not _KIND_OF[speculation.method]:
            wanted = _KIND_OF[speculation.method]
            yield (
                f"variants.{variant.name}.speculation.draft.kind",
                f"{speculation.draft.id} is of kind {speculation.draft.kind}, and {speculation.method} needs {wanted}",
                f"give weights of kind {wanted}, or another method (`kind` says what the weights are)",
            )


def draft_family(case: ServedCase) -> Iterator[Finding]:
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
                message = "the native plugin loads a static FP8 checkpoint (ModelOpt) as it was published"
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
        yield "engine", f"AMI {ami} is refused with {case.engine.name}: a kernel that panics, whatever the driver", fix
