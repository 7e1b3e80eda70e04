"""Rules of speculation: methods that an engine has, drafts that suit the target, and numbers of drafted tokens."""

from collections.abc import Iterator

from specdecode.experiment.effective import arguments, flags
from specdecode.experiment.rules.case import Finding, ServedCase
from specdecode.experiment.variants import Method, ModelKind

_KIND_OF = {
    Method.VANILLA_DRAFT: ModelKind.MODEL,
    Method.FUSED_DRAFT: ModelKind.MODEL,
    Method.EAGLE: ModelKind.EAGLE,
    Method.EAGLE3: ModelKind.EAGLE3,
    Method.DFLASH: ModelKind.DFLASH,
    Method.MEDUSA: ModelKind.MEDUSA,
}


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
