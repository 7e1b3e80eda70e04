"""Folders of the bucket that are not what their COMPLETE.json says: they are set aside, and made anew (ADR 201)."""

from collections.abc import Iterable
from contextlib import suppress

from specdecode import finished, names, s3_keys
from specdecode.analysis.results.run_context import Failure
from specdecode.exit_codes import Exit
from specdecode.kubernetes.teardown import run_selector
from specdecode.runs.state import change_state
from specdecode.steps.errors import DamagedFolder
from specdecode.steps.jobs import arm_pods
from specdecode.steps.run import Run, load_run
from specdecode.steps.runtime import Runtime


def is_there(prefix: str, run: Run, rt: Runtime) -> bool:
    """Whether the folder is finished. One of which a listing shows damage is set aside, and the report tells it."""
    seen = finished.find(rt.store, prefix)
    if seen.damage:
        told = f"{seen.damage}. It was set aside, to be made again."
        change_state(rt.store, run.state.run_id, failure=Failure(stage=DamagedFolder.__name__, message=told))
        finished.set_aside(rt.store, prefix)
    return seen.content is not None


def note_contents(prefixes: Iterable[str], run: Run, rt: Runtime) -> None:
    """Note the hash of each folder in the run's record: servers compare it, and the report shows it."""
    seen = {prefix: finished.find(rt.store, prefix).content for prefix in prefixes}
    contents = run.state.contents | {prefix: content for prefix, content in seen.items() if content}
    change_state(rt.store, run.state.run_id, contents=contents)


def set_aside(codes: Iterable[int | None], name: str, run: Run, rt: Runtime, *, artifact: str = "") -> str:
    """Set aside what the containers of arm `name` found damaged, by their exit codes. Returns what was done, or "".

    `artifact`: fingerprint of the artifact that they read, if they read one. Of several models it is not known which:
    staging keeps the files of the others, whose hashes are noted. Where a file is missing, a listing shows it, unless
    another run has set the folder aside since.
    """
    found, models = set(codes), [each.prefix for each in run.plan.served.models_of(run.plan.served.variant(name))]
    damaged = [s3_keys.compiled_prefix(artifact)] if artifact and Exit.DAMAGED_ARTIFACT in found else []
    if Exit.DAMAGED_MODEL in found:
        damaged += models
    elif found & {Exit.NOT_FOUND, Exit.INCOMPLETE}:
        damaged += [prefix for prefix in models if finished.find(rt.store, prefix).content is None]
    return put_aside(damaged, run, rt)


def put_aside(damaged: Iterable[str], run: Run, rt: Runtime) -> str:
    """Set aside folders that a pod found damaged. Returns what was done, or "".

    A folder that is no longer the one in the run's record stays, since nobody found that damaged: most likely another
    run has made it anew. If its COMPLETE.json is what was damaged, the next run's servers find it.
    """
    seen = {prefix: finished.find(rt.store, prefix).content for prefix in damaged}
    changed = [prefix for prefix, now in seen.items() if now and run.state.contents.get(prefix, now) != now]
    aside = [prefix for prefix in seen if prefix not in changed]
    for prefix in aside:
        finished.set_aside(rt.store, prefix)
    done = {
        "set aside, and made anew by the next run": aside,
        "no longer what this run noted, so that it stays, and the next run compares it": changed,
    }
    return "".join(f"; {what}: {', '.join(prefixes)}" for what, prefixes in done.items() if prefixes)


def set_aside_later(run_id: str, rt: Runtime) -> str:
    """Set aside what a server of the run found damaged when it was started again, after Serve. Returns what was done.

    "" if that is nothing, is not known, or could not be done.
    """
    done = dict[str, None]()
    with suppress(Exception):  # the bucket or the cluster may be what failed; the cause is told all the same
        run = load_run(rt.store, run_id)
        serving = rt.kube.list("Pod", namespace=names.NAMESPACE, selector=run_selector(run_id))
        waves = {int(pod["metadata"]["labels"].get(names.WAVE_LABEL, -1)) for pod in serving}
        for arm in (arm for wave in run.plan.waves if wave.index in waves for arm in run.wave(wave.index).served):
            _, found = arm_pods(rt.kube, run_id, arm)
            done[set_aside({each.exit_code for each in found}, arm.variant, run, rt, artifact=arm.fingerprint)] = None
    return "".join(done)
