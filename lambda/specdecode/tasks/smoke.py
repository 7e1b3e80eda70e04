"""Smoke: one real request to every ready arm, from a pod of the benchmark's kind, before anything is measured."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from specdecode import manifests, names
from specdecode.cluster.jobs import created_at
from specdecode.cluster.resources import name_of
from specdecode.manifests.benchmarking import SMOKE_MINUTES
from specdecode.tasks.acquire import require_node
from specdecode.tasks.errors import SmokeFailed
from specdecode.tasks.jobs import advance_job
from specdecode.tasks.pace import soon
from specdecode.tasks.run import load_run, render_context
from specdecode.tasks.runtime import Progress, Runtime, StepInput, run_step
from specdecode.tasks.sessions import Sessions


def smoke(given: StepInput, rt: Runtime) -> Progress:
    run, ctx = load_run(rt.store, given.run_id), render_context(given, rt)
    if why := run.settled(given.wave):
        return Progress(done=True, message=why)
    require_node(given, rt, run)
    job = manifests.smoke_job(run.plan, run.wave(given.wave), ctx)
    done, message = advance_job(
        Sessions(rt, ctx, manifests.Rights()),
        [job],
        root=manifests.run_root(run.plan, ctx),
        limit_min=SMOKE_MINUTES,
        failure=SmokeFailed,
    )
    live = rt.kube.get("Job", name_of(job), namespace=names.NAMESPACE)
    age = rt.now() - created_at(live) if live else timedelta()
    return Progress(done=done, message=message, wait_s=soon(age, then_s=run.plan.poll_seconds))


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(smoke, event, context)
