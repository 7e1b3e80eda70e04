"""StageModels: bring missing models to the bucket, on ordinary CPU nodes, and check that the prompts fit."""

from collections.abc import Iterator
from functools import partial

from pydantic import ValidationError

from specdecode import finished, manifests
from specdecode.exit_codes import Exit
from specdecode.experiment.model import answers_of
from specdecode.experiment.prompt_lengths import CountSpec, PromptLengths, count_spec, do_not_fit
from specdecode.experiment.prompt_sets import hub_sets
from specdecode.manifests import RenderContext
from specdecode.steps.damage import is_there, note_contents, put_aside
from specdecode.steps.errors import DamagedFolder, PromptsRefused, StagingFailed
from specdecode.steps.jobs import advance_job
from specdecode.steps.prompts import keep_sets, said
from specdecode.steps.run import Run, load_run, render_context
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step

_advance = partial(advance_job, failure=StagingFailed)


def stage(given: StepInput, rt: Runtime) -> Progress:
    """Brings models and sets of prompts, all at once. Then the prompts are counted with the tokenizer that came."""
    run = load_run(rt.store, given.run_id)
    if not run.plan.experiment.holds_node:
        return Progress(done=True, message="the servers run already")
    ctx = render_context(run, rt)
    there = f"all {len(run.plan.models)} models are in the bucket"
    messages = [*_models(run, ctx, rt), *_sets(run, ctx, rt)]
    counted, how = (False, "") if messages else _prompts(run, ctx, rt, run_id=given.run_id)
    if messages or not counted:
        return Progress(done=False, message="; ".join(messages) or how, wait_s=run.plan.poll_seconds)
    note_contents([item.model.prefix for item in run.plan.models], run, rt)
    return Progress(done=True, message=f"{there}; prompts: {how}" if how else there)


def _models(run: Run, ctx: RenderContext, rt: Runtime) -> Iterator[str]:
    """A line for each model that is still missing."""
    for model in (item.model for item in run.plan.models):
        if is_there(model.prefix, run, rt):
            continue
        found = _advance(run, rt, manifests.staging_job(run.plan, model, ctx))
        if not found.done:
            yield f"{model.id}: {found.message}"
        elif not is_there(model.prefix, run, rt):
            raise StagingFailed(f"the Job for {model.id} is complete but {rt.store.url(model.prefix)} is not")


def _sets(run: Run, ctx: RenderContext, rt: Runtime) -> Iterator[str]:
    """A line for each set of the Hugging Face hub that is still missing."""
    for given, hub in hub_sets(run.plan.experiment):
        if rt.store.read(given.key, at_most=1) is not None:
            continue
        found = _advance(run, rt, manifests.fetch_prompts_job(run.plan, given, hub, ctx))
        if not found.done:
            yield f"{hub}: {found.message}"
        elif rt.store.read(given.key, at_most=1) is None:
            raise StagingFailed(f"the Job for {hub} is complete but {rt.store.url(given.key)} is not there")


def _prompts(run: Run, ctx: RenderContext, rt: Runtime, *, run_id: str) -> tuple[bool, str]:
    """Whether the prompts are counted, as far as they must be, and how. Raises PromptsRefused if they do not fit."""
    experiment = run.plan.experiment
    sets, problems = keep_sets(rt.store, experiment, run_id=run_id, fetched=True)
    if problems:
        raise PromptsRefused(said(problems))
    spec = count_spec(experiment, sets)
    if spec is None or answers_of(experiment):  # they were sent before, to a window that was no larger
        return True, ""
    spec = spec.model_copy(update={"content": finished.find(rt.store, spec.model).content or ""})
    lengths = _lengths(spec, rt)
    if lengths is None or not lengths.exact:  # what kept an earlier run from counting may be gone
        try:
            found = _advance(run, rt, manifests.count_prompts_job(run.plan, spec, ctx))
        except StagingFailed as error:
            if Exit.DAMAGED_MODEL not in error.exit_codes:
                raise
            raise DamagedFolder(f"{error}{put_aside([spec.model], run, rt)}") from None
        if not found.done:
            return False, f"counting prompts: {found.message}"
        lengths = _lengths(spec, rt)
    if lengths is None:
        raise StagingFailed(f"the prompts were counted but {rt.store.url(spec.key)} cannot be read")
    if beyond := list(do_not_fit(lengths, run.plan.served)):
        raise PromptsRefused(said(beyond))
    return True, lengths.how if lengths.exact else f"not counted ({lengths.how})"


def _lengths(spec: CountSpec, rt: Runtime) -> PromptLengths | None:
    """The counts. None if there are none, or the document cannot be read."""
    data = rt.store.read(spec.key)
    try:
        return None if data is None else PromptLengths.model_validate_json(data)
    except ValidationError:
        return None


handler = partial(run_step, stage)
