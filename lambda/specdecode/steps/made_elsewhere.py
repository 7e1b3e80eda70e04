"""An artifact that two runs need at the same time is compiled once. The fingerprint is the lock, its Jobs hold it.

If two runs stored one artifact at once, files of both would lie under one COMPLETE.json.

Why it is so: ADR 178.
"""

from __future__ import annotations

from datetime import timedelta

from specdecode import names
from specdecode.kubernetes.pods import Phase, created_at, job_state
from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.planning import Arm
from specdecode.runs.state import change_state
from specdecode.steps.errors import CompileFailed
from specdecode.steps.run import Run
from specdecode.steps.runtime import Runtime


def made_elsewhere(arm: Arm, run: Run, rt: Runtime, *, limit_min: int) -> str | None:
    """The run that compiles the arm's artifact now, so that this run waits. None if no other run does.

    The Job that was made first goes on. If two were made between two looks, each sees the other at the next look, long
    before one has anything to store; the later one is deleted.

    Raises CompileFailed if waiting and compiling together took longer than `limit_min`, the step's deadline. So a wait
    costs no more than the compilation would.
    """
    own = names.run_label(run.state.run_id)
    jobs = rt.kube.list("Job", namespace=names.NAMESPACE, selector=f"{names.ARTIFACT_LABEL}={arm.fingerprint}")
    active = [
        job for job in jobs if job_state(job).phase is Phase.ACTIVE and "deletionTimestamp" not in job["metadata"]
    ]
    first = min(active, key=lambda job: (created_at(job), name_of(job)), default=None)
    waited = run.state.awaited.get(arm.fingerprint)
    if waited is not None and rt.now() - waited > timedelta(minutes=limit_min):
        raise CompileFailed(f"{arm.fingerprint} was not made within {limit_min} min, by another run or by this one")
    if first is None or _run_of(first) == own:
        return None
    for job in active:
        if _run_of(job) == own:
            rt.kube.delete("Job", name_of(job), namespace=names.NAMESPACE)
    if waited is None:
        change_state(rt.store, run.state.run_id, awaited={**run.state.awaited, arm.fingerprint: rt.now()})
    return _run_of(first)


def _run_of(job: KubeObject) -> str:
    return str(job["metadata"]["labels"].get(names.RUN_LABEL, ""))
