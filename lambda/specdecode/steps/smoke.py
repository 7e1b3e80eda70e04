"""Smoke: send one real request, and the longest prompt, to every ready arm before anything is measured."""

import json
from functools import partial

from specdecode import manifests, names
from specdecode.experiment.prompt_lengths import longest_prompt
from specdecode.kubernetes.resources import name_of
from specdecode.planning.artifacts import served_key
from specdecode.steps.acquire import on_the_node
from specdecode.steps.errors import SmokeFailed
from specdecode.steps.jobs import advance_job
from specdecode.steps.prompts import kept_sets
from specdecode.steps.run import Run, render_context, soon
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step


@on_the_node
def smoke(given: StepInput, rt: Runtime, run: Run) -> Progress:
    ctx = render_context(run, rt)
    work = manifests.smoke(run.plan, run.wave(given.wave), ctx)
    if rt.kube.get("Job", name_of(work.job), namespace=names.NAMESPACE) is None:
        sets = kept_sets(rt.store, run.plan.experiment, run_id=given.run_id)
        longest = longest_prompt(run.plan.experiment, sets)
        work = manifests.smoke(run.plan, run.wave(given.wave), ctx, longest)
    found = advance_job(run, rt, work, failure=SmokeFailed)
    if found.done and run.plan.experiment.holds_node:
        _mark_served(run, given.wave, rt)
    return Progress(done=found.done, message=found.message, wait_s=soon(found.age, then_s=run.plan.poll_seconds))


def _mark_served(run: Run, wave: int, rt: Runtime) -> None:
    """Leave the marks after which these kinds of arms need no start check. What is in them is for people."""
    for arm in run.wave(wave).arms:
        key = served_key(run.plan.served, run.plan.served.variant(arm.variant), run.plan.engine)
        about = {"image": run.plan.engine.reference, "run": run.state.run_id, "arm": arm.variant}
        rt.store.write(key, json.dumps(about))


handler = partial(run_step, smoke)
