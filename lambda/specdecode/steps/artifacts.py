"""What a report says about the artifacts that its arms were served from."""

from __future__ import annotations

from specdecode import s3_keys
from specdecode.analysis.results.run_context import Compiled, Served
from specdecode.experiment.model import CompileOn
from specdecode.manifests.serve_command import recipe
from specdecode.planning import fingerprint
from specdecode.steps.run import Run


def served(run: Run, *, bucket: str) -> tuple[Served, ...]:
    """How to serve each arm again. `bucket`: `s3://name/`."""
    experiment, engine = run.plan.served, run.plan.engine
    arms = {arm.variant: arm for wave in run.plan.waves for arm in run.wave(wave.index).arms}
    found = []
    for variant in experiment.variants:
        arm = arms.get(variant.name)
        made = arm.fingerprint if arm else fingerprint(experiment, variant, engine)
        key = s3_keys.compiled_prefix(made) if engine.artifact else None
        text = recipe(experiment, variant, engine, bucket=bucket, artifact=key)
        content = run.state.contents.get(key or "", "")
        where = f"{bucket}{key}" if key else ""
        found.append(Served(variant=variant.name, recipe=text, artifact=where, artifact_sha256=content))
    return tuple(found)


def compiled(run: Run) -> tuple[Compiled, ...]:
    """Where each arm's artifact was compiled. Only for a run that compiles without the accelerator."""
    if run.plan.experiment.compile.on is not CompileOn.CPU:
        return ()
    first = {arm.variant: arm for wave in reversed(run.plan.waves) for arm in wave.arms}
    refused = run.state.refused_artifacts
    return tuple(
        Compiled(
            variant=name,
            on=CompileOn.CPU if arm.fallback and arm.fingerprint not in refused else CompileOn.ACCELERATOR,
            refused=arm.fingerprint in refused,
        )
        for name, arm in sorted(first.items())
    )
