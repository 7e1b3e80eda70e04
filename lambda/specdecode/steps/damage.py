"""Folders of the bucket that are not what their COMPLETE.json says: set aside, so that they are made anew."""

from collections.abc import Iterable

from specdecode import finished, s3_keys
from specdecode.exit_codes import Exit
from specdecode.planning import Arm
from specdecode.runs.state import change_state
from specdecode.steps.run import Run
from specdecode.steps.runtime import Runtime


def is_there(prefix: str, rt: Runtime) -> bool:
    """Whether the folder is finished. One of which a listing shows damage is set aside."""
    seen = finished.look(rt.store, prefix)
    if seen.damage:
        finished.set_aside(rt.store, prefix)
    return seen.content is not None


def note_contents(prefixes: Iterable[str], run: Run, rt: Runtime) -> None:
    """Note the hash of each folder in the run's record: servers compare it, and the report shows it."""
    seen = {prefix: finished.look(rt.store, prefix).content for prefix in prefixes}
    contents = run.state.contents | {prefix: content for prefix, content in seen.items() if content}
    change_state(rt.store, run.state.run_id, contents=contents)


def set_aside(codes: Iterable[int | None], arm: Arm, run: Run, rt: Runtime) -> str:
    """Set aside what the containers of `arm` found damaged, by their exit codes. Returns what was done, or "".

    Of several models it is not known which one: staging keeps the files of the others, whose hashes are noted.
    """
    variant, found = run.plan.served.variant(arm.variant), set(codes)
    damaged = [s3_keys.compiled_prefix(arm.fingerprint)] if Exit.DAMAGED_ARTIFACT in found else []
    if Exit.DAMAGED_MODEL in found:
        damaged += [model.prefix for model in run.plan.served.models_of(variant)]
    for prefix in damaged:
        finished.set_aside(rt.store, prefix)
    return f"; set aside, and made anew by the next run: {', '.join(damaged)}" if damaged else ""
