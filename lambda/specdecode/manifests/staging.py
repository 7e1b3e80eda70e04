"""Jobs on ordinary CPU nodes before a node is taken: weights and sets of prompts to the bucket, prompts counted."""

from specdecode import names, s3_keys
from specdecode.experiment.prompt_lengths import CountSpec
from specdecode.experiment.variants import ModelRef
from specdecode.manifests.bundle import Rights, StepJob, fits, program_job
from specdecode.manifests.naming import RenderContext, labels, object_name, staging_name
from specdecode.manifests.pods import word
from specdecode.planning import Plan
from specdecode.planning.timeline import COUNT_MINUTES
from specdecode.prompts import HubFile, PromptsOf

TO_BUCKET = ("--bucket", '"$BUCKET"')


def staging_job(plan: Plan, model: ModelRef, ctx: RenderContext) -> StepJob:
    """Job that downloads `model` (or copies it from its import prefix) to `models/…`, COMPLETE.json last. It writes
    only there.
    """
    own, imported = f"{model.prefix}*", (f"{model.import_prefix}*",) if model.import_prefix else ()
    source = ["--model", word(model.id), "--revision", word(model.revision)]
    if model.import_prefix:
        source = ["--import-prefix", word(model.import_prefix)]
    arguments = [*TO_BUCKET, "--prefix", word(model.prefix), *source]
    arguments += ["--rescale-fp8"] if model.rescale_fp8 else []
    arguments += ["--safetensors"] if plan.engine.safetensors_alone else []
    return program_job(
        plan,
        ctx,
        "specdecode.pod.stage",
        arguments,
        name=staging_name(model, ctx),
        labels=labels(ctx, "staging"),
        resources=plan.engine.resources.staging,
        env=_token(model.gated),
        minutes=plan.experiment.deadlines.staging,
        retries=4,
        rights=Rights(reads=(own, *imported), writes=(own,), clears=True, token=model.gated),
    )


def fetch_prompts_job(plan: Plan, given: PromptsOf, hub: HubFile, ctx: RenderContext) -> StepJob:
    """Job that puts the file of `hub` under the set's key, its hash checked. It writes only this file."""
    words = {"key": given.key, "sha256": given.sha256, "repo": hub.repo, "revision": hub.revision, "file": hub.file}
    return program_job(
        plan,
        ctx,
        "specdecode.pod.fetch_prompts",
        [*TO_BUCKET, *(part for key, value in words.items() for part in (f"--{key}", word(value)))],
        name=object_name(ctx.run_id, "prompts", given.set, given.sha256[:12]),
        labels=labels(ctx, "staging"),
        resources=plan.engine.resources.staging,
        env=_token(hub.gated),
        minutes=plan.experiment.deadlines.staging,
        retries=2,
        rights=Rights(writes=(given.key,), token=hub.gated),
    )


def count_prompts_job(plan: Plan, spec: CountSpec, ctx: RenderContext) -> StepJob:
    """Job that reads the model's tokenizer and the sets, or all sets if these are too many to be named, and writes the
    lengths.
    """
    sets = dict.fromkeys(case.prompts.key for case in spec.cases if case.prompts)
    own = [f"{spec.model}{name}" for name in (s3_keys.COMPLETE, "tokenizer*", "chat_template.jinja")]
    rights = Rights(reads=(*own, *sets), writes=(spec.key,))
    if not fits(rights, ctx):
        rights = Rights(reads=(*own, f"{s3_keys.PROMPTS}*"), writes=(spec.key,))
    return program_job(
        plan,
        ctx,
        "specdecode.pod.count_prompts",
        [*TO_BUCKET, "--spec", "spec/spec.json"],
        name=object_name(ctx.run_id, "count"),
        labels=labels(ctx, "staging"),
        resources=plan.engine.resources.staging,
        files={"spec": {"spec.json": spec.model_dump_json(indent=2)}},
        minutes=COUNT_MINUTES,
        retries=2,
        rights=rights,
    )


def _token(is_needed: bool) -> dict[str, str]:
    """The pod's own session reads the Hugging Face token from Secrets Manager, for gated models and sets only."""
    return {"HF_TOKEN_SECRET": names.HF_TOKEN_SECRET} if is_needed else {}
