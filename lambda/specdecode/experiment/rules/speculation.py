"""Rules of speculation: methods that an engine has, drafts that suit the target, and numbers of drafted tokens."""

from collections.abc import Iterator

from specdecode.experiment.effective import arguments, flags
from specdecode.experiment.rules.case import Finding, ServedCase
from specdecode.experiment.variants import HEADS, ModelKind


def method(case: ServedCase) -> Iterator[Finding]:
    engine = case.engine
    can = f"this engine can do {', '.join(engine.methods) or 'nothing'}"
    for field, _, speculation in case.speculating():
        if (asked := speculation.method) not in engine.methods:
            message = f"{engine.name} cannot do {asked}: {engine.refused[asked]}"
            yield f"{field}.method", message, f"{can}; `specdecode engines` shows which engine can do what"


def method_family(case: ServedCase) -> Iterator[Finding]:
    """The model code of a family must have the method; a family that is not served at all is `model_family`'s."""
    for field, variant, speculation in case.speculating():
        support, family = case.engine.methods.get(speculation.method), case.experiment.target_of(variant).family
        families = support.families if support else None
        if families is not None and family in case.engine.model_families and family not in families:
            asked = speculation.method
            message = f"{case.engine.name} has no {asked} for {family}: its model code lacks the heads"
            fix = f"families with {asked} there: {', '.join(families)} (docs/reference/engines.md)"
            yield f"{field}.method", message, fix


def method_needs(case: ServedCase) -> Iterator[Finding]:
    """Numbers of tokens that heads were trained for, and arguments without which the method does not start."""
    for field, variant, speculation in case.speculating():
        if (support := case.engine.methods.get(speculation.method)) is None:
            continue
        k, asked = speculation.num_speculative_tokens, speculation.method
        if support.tokens and k not in support.tokens:
            message = f"a {asked} head drafts the block that it was trained for: no known head has k = {k}"
            fix = f"give your head's own k (its block less one): {', '.join(map(str, support.tokens))}"
            yield f"{field}.num_speculative_tokens", message, fix
        given = flags(arguments(case.experiment, variant, case.engine)).items()
        if missing := [one for one in support.needs_args if not flags([one]).items() <= given]:
            message = f"{asked} does not start without {' '.join(missing)}"
            fix = "add them to serving.extra_args, so that both arms have them"
            yield f"variants.{variant.name}.extra_args", message, fix


def verified(case: ServedCase) -> Iterator[Finding]:
    name, most = case.engine.name, case.engine.most_tokens_per_step
    for field, _, speculation in case.speculating():
        if speculation.most_tokens_per_step is not None:
            fix = "leave it out: it is for servers that already run"
            yield f"{field}.most_tokens_per_step", f"{name}'s file says what its step yields ({most})", fix
        if most.verified(k := speculation.num_speculative_tokens) < 1:
            message = f"{name} verifies k - 1 of k drafts, so that with k={k} no step yields more than one token"
            yield f"{field}.num_speculative_tokens", message, "write 2 or more"


def k_by_load(case: ServedCase) -> Iterator[Finding]:
    for field, _, speculation in case.speculating():
        if speculation.num_speculative_tokens_per_batch_size and not case.engine.k_by_batch_size:
            message = f"{case.engine.name} speculates with one k at every load"
            fix = "leave it out; each k is an arm of its own there"
            yield f"{field}.num_speculative_tokens_per_batch_size", message, fix


def draft_kind(case: ServedCase) -> Iterator[Finding]:
    for field, _, speculation in case.speculating():
        asked, draft = speculation.method, speculation.draft
        wanted = ModelKind(asked) if asked in HEADS else ModelKind.MODEL
        if draft.kind is not wanted:
            message = f"{draft.id} is of kind {draft.kind}, and {asked} needs {wanted}"
            fix = f"give weights of kind {wanted}, or another method (`kind` says what the weights are)"
            yield f"{field}.draft.kind", message, fix


def draft_family(case: ServedCase) -> Iterator[Finding]:
    for field, variant, speculation in case.speculating():
        target, draft = case.experiment.target_of(variant), speculation.draft
        if target.family and draft.family and target.family != draft.family:
            message = f"{draft.id} ({draft.family}) does not share the vocabulary of {target.id} ({target.family})"
            yield f"{field}.draft", message, "choose a draft of the target's family"
        if draft.size_gib >= target.size_gib:
            message = f"{draft.id} ({draft.size_gib:g} GiB) is not smaller than {target.id} ({target.size_gib:g} GiB)"
            yield f"{field}.draft", message, "a draft must cost much less than a step of the target"
