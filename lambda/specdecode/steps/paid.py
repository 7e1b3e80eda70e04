"""A run costs no more than was accepted, and compiles no more than that has: what Plan found in the bucket may be gone
since (ADR 113).
"""

import math
from collections.abc import Collection
from datetime import datetime

from specdecode import finished, s3_keys
from specdecode.planning import Arm, Bill
from specdecode.planning.timeline import COMPILE
from specdecode.runs.state import change_state
from specdecode.steps.errors import CompileFailed, InvalidExperiment
from specdecode.steps.run import Run
from specdecode.steps.runtime import Runtime
from specdecode.store import Store, error_code


def check_cost(bill: Bill, *, accepted: float | None) -> None:
    """Refuse a run that could cost more than was accepted, whoever starts it and from wherever."""
    if bill.added > bill.limit(accepted):
        most = math.ceil(bill.added)
        allowed = (
            f"${bill.accept_above:,.0f} needs no consent" if accepted is None else f"${accepted:,.2f} was accepted"
        )
        raise InvalidExperiment(
            f"the run could cost ${most:,}, if every step lasts until its deadline; {allowed}: add "
            f'"accept_cost": {most} to the input (`specdecode run --accept-cost`), or shorten its deadlines'
        )


def check_start(store: Store, time: datetime | None, run_id: str) -> None:
    """Refuse a run whose start has begun another: EventBridge Scheduler delivers at least once (ADR 113)."""
    if time is None:
        return
    key = s3_keys.scheduled_key(time)
    try:
        store.write(key, run_id, content_type="text/plain", condition={"IfNoneMatch": "*"})
    except Exception as error:
        if error_code(error) != "PreconditionFailed":
            raise
        if (first := (store.read(key) or b"").decode()) != run_id:
            raise InvalidExperiment(f"the start of {time} was delivered twice, and has begun {first}") from None


def require_paid(step: str, wanted: Collection[str], run: Run) -> None:
    """Refuse to compile `wanted` in `step`, if they are more than was priced and accepted."""
    paid = run.state.paid_compiles.get(step)
    if paid is not None and len(wanted) > paid:
        raise CompileFailed(
            f"the accepted price has {paid} of the compiles that the run needs now, {len(wanted)}: what was in the "
            f"bucket when it was planned is gone ({', '.join(sorted(wanted))})"
        )


def note_compiles(step: str, missing: Collection[Arm], run: Run, rt: Runtime, *, wave: int = 0) -> None:
    """Note what `step` is about to compile, each time that it is. Raises CompileFailed if that is too much."""
    again = len(run.state.refused_artifacts)  # a wave compiles once more after each
    begun = {*run.state.compiles.get(step, ()), *(f"{wave}.{again}/{arm.fingerprint}" for arm in missing)}
    require_paid(step, begun, run)
    change_state(rt.store, run.state.run_id, compiles={**run.state.compiles, step: tuple(sorted(begun))})


def require_paid_node(run: Run, rt: Runtime) -> None:
    """The same for all that the node would compile, before it is taken."""
    if run.plan.engine.artifact is not None:
        waves = [run.wave(wave.index) for wave in run.plan.waves if run.settled(wave.index) is None]
        made = {s3_keys.compiled_prefix(arm.fingerprint) for wave in waves for arm in wave.arms if not arm.fallback}
        require_paid(COMPILE, [each for each in made if finished.find(rt.store, each).content is None], run)
