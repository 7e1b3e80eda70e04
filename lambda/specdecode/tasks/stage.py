"""StageModels: bring models that are missing in the bucket there, all at once, on ordinary CPU nodes."""

from __future__ import annotations

from typing import Any

from specdecode import manifests
from specdecode.tasks.errors import StagingFailed
from specdecode.tasks.jobs import advance_job
from specdecode.tasks.run import load_run, render_context
from specdecode.tasks.runtime import Progress, Runtime, StepInput, run_step
from specdecode.tasks.sessions import Sessions


def stage(given: StepInput, rt: Runtime) -> Progress:
    run, ctx = load_run(rt.store, given.run_id), render_context(given, rt)
    missing = [model for model in run.plan.models_to_stage if not rt.store.is_complete(model.prefix)]
    messages = []
    for model in missing:
        done, message = advance_job(
            Sessions(rt, ctx, manifests.staging_rights(model)),
            [manifests.staging_job(run.plan, model, ctx)],
            root=manifests.run_root(run.plan, ctx),
            limit_min=run.plan.experiment.deadlines.staging,
            failure=StagingFailed,
        )
        if done and not rt.store.is_complete(model.prefix):
            raise StagingFailed(f"the Job for {model.id} is complete but {rt.store.url(model.prefix)} is not")
        if not done:
            messages.append(f"{model.id}: {message}")
    if messages:
        return Progress(done=False, message="; ".join(messages), wait_s=run.plan.poll_seconds)
    return Progress(done=True, message=f"all {len(run.plan.models)} models are in the bucket")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(stage, event, context)
