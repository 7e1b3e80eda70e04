"""Compile without the accelerator: all artifacts that the run needs, on CPU nodes, before the run queues for the node.

The Lambda function is Compile's. A failure here fails the run: nothing was paid for the node yet.
"""

from __future__ import annotations

from specdecode import manifests, s3_keys
from specdecode.experiment.shapes import COMPILERS
from specdecode.kubernetes.resources import name_of
from specdecode.planning.compiling import cpu_deadline
from specdecode.steps.errors import CompileFailed
from specdecode.steps.jobs import advance_job, keep_failed_logs
from specdecode.steps.made_elsewhere import made_elsewhere
from specdecode.steps.run import load_run, render_context
from specdecode.steps.runtime import Progress, Runtime, StepInput
from specdecode.steps.sessions import Sessions

INSTEAD = "on a CPU node, before the node was taken; --set compile.on=accelerator compiles on the node"


def compile_ahead(given: StepInput, rt: Runtime) -> Progress:
    """Done when every artifact that CPU nodes compile is complete in the bucket. COMPILERS Jobs run at a time."""
    run = load_run(rt.store, given.run_id)
    ctx = render_context(run, rt)
    waves = [run.wave(wave.index) for wave in run.plan.waves if run.settled(wave.index) is None]
    arms = {arm.fingerprint: arm for wave in waves for arm in wave.arms if arm.fallback}
    missing = [arm for arm in arms.values() if not rt.store.is_complete(s3_keys.compiled_prefix(arm.fingerprint))]
    messages = [f"{len(missing) - COMPILERS} wait for a CPU node"] if len(missing) > COMPILERS else []
    for arm in missing[:COMPILERS]:
        job = manifests.compile_job(run.plan, arm, ctx)
        keep_failed_logs(rt.kube, rt.store, run_id=given.run_id, job=name_of(job))
        limit = cpu_deadline(run.plan.served, run.plan.engine)
        try:
            if other := made_elsewhere(arm, run, rt, limit_min=limit):
                messages.append(f"{arm.variant}: {other} compiles the same artifact; this run waits for it")
                continue
            done, message, _ = advance_job(
                Sessions(rt, ctx, manifests.compile_rights(run.plan, arm)),
                [job],
                root=manifests.run_root(run.plan, ctx),
                limit_min=limit,
                failure=CompileFailed,
            )
        except CompileFailed as error:
            raise CompileFailed(f"{arm.variant}: {error} ({INSTEAD})") from None
        if not done:
            messages.append(f"{arm.variant}: {message}")
        elif not rt.store.is_complete(s3_keys.compiled_prefix(arm.fingerprint)):
            raise CompileFailed(f"the Job for {arm.variant} is complete but its artifact {arm.fingerprint} is not")
    if messages:
        return Progress(done=False, message="; ".join(messages), wait_s=run.plan.poll_seconds)
    return Progress(done=True, message=f"{len(arms)} artifacts are ready, compiled on CPU nodes")
