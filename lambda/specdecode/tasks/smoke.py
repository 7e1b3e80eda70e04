"""Smoke: one real request to every ready arm, from a pod of the benchmark's kind, before anything is measured."""

from __future__ import annotations

from typing import Any

from specdecode import manifests
from specdecode.manifests.benchmarking import SMOKE_MINUTES
from specdecode.tasks.acquire import require_lease
from specdecode.tasks.errors import SmokeFailed
from specdecode.tasks.jobs import advance_job
from specdecode.tasks.run import load_run, render_context
from specdecode.tasks.runtime import Progress, Runtime, StepInput, run_step

POLL_S = 20
"""A smoke test takes seconds, and everything waits for it."""


def smoke(given: StepInput, rt: Runtime) -> Progress:
    run, ctx = load_run(rt.store, given.run_id), render_context(given, rt)
    if run.is_measured(given.wave):
        return Progress(done=True, message="measured already")
    require_lease(given, rt)
    done, message = advance_job(
        rt.kube,
        [manifests.smoke_job(run.plan, run.wave(given.wave), ctx)],
        now=rt.now(),
        limit_min=SMOKE_MINUTES,
        failure=SmokeFailed,
    )
    return Progress(done=done, message=message, wait_s=POLL_S)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(smoke, event, context)
