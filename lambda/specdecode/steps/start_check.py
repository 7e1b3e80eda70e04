"""StartCheck: before anything is compiled, start each kind of arm once with a tiny model.

Why it is so: ADR 198.
"""

from datetime import timedelta

from specdecode import manifests
from specdecode.experiment.sizing import arms_at_once
from specdecode.kubernetes.node_room import DRA_DRIVER
from specdecode.kubernetes.resources import name_of
from specdecode.planning.artifacts import groups
from specdecode.runs.state import change_state
from specdecode.steps.acquire import on_the_node, require_node
from specdecode.steps.errors import StartCheckFailed
from specdecode.steps.jobs import Advance, advance_job, keep_failed_logs
from specdecode.steps.pace import attentive
from specdecode.steps.run import Run, load_run, render_context
from specdecode.steps.runtime import Progress, Runtime, StepInput


@on_the_node
def start_check(given: StepInput, rt: Runtime) -> Progress:
    """Done when the arms that the plan names have started and answered. The message says what it cost.

    Arms that fit on the node together start together. Raises StartCheckFailed if one does not start or answer, or if a
    group takes longer than its deadline.
    """
    run = load_run(rt.store, given.run_id)
    if not run.plan.start_checks or run.is_all_settled:
        return Progress(done=True, message="no kind of arm must be checked")
    if run.state.start_check_minutes is None:
        require_node(given, rt, run)
        _require_devices(run, rt)
        size = arms_at_once(run.plan.experiment, run.plan.engine)
        oldest, checks = timedelta(), groups(run.plan.start_checks, size=size)
        for group in checks:
            found = {name: _advance(name, run, rt) for name in group}
            if waits := [f"{name}: {each.message}" for name, each in found.items() if not each.done]:
                age = max(each.age for each in found.values())
                expected = run.plan.timeline.most_minutes("StartCheck") / len(checks)
                wait_s = attentive(run.plan, age, expected_min=expected)
                return Progress(done=False, message="; ".join(waits), wait_s=wait_s)
            oldest = max(oldest, *(each.age for each in found.values()))
        change_state(rt.store, given.run_id, start_check_minutes=round(oldest.total_seconds() / 60, 2))
        return start_check(given, rt)
    names = " and ".join(run.plan.start_checks)
    return Progress(done=True, message=f"{names} started with a tiny model: {what_it_cost(run)}")


def what_it_cost(run: Run) -> str:
    """Minutes and dollars of the check that has passed. Empty without one."""
    minutes = run.state.start_check_minutes
    if minutes is None:
        return ""
    return f"{minutes:.1f} min of the node, ${minutes / 60 * run.plan.price_per_node_hour:.2f}"


def _require_devices(run: Run, rt: Runtime) -> None:
    """Refuse a node that offers fewer devices than the arms need that are served together. Small models may start one
    after the other where the arms could not.
    """
    need = arms_at_once(run.plan.served, run.plan.engine) * run.plan.experiment.devices
    node = run.state.node
    if not need or node is None:
        return
    slices = [item["spec"] for item in rt.kube.list("ResourceSlice")]
    offered = sum(
        len(it.get("devices") or ()) for it in slices if (it["driver"], it.get("nodeName")) == (DRA_DRIVER, node)
    )
    if offered < need:
        raise StartCheckFailed(f"node {node} offers {offered} Neuron devices, and the arms need {need}")


def _advance(name: str, run: Run, rt: Runtime) -> Advance:
    """One look at the Job of the arm. Raises StartCheckFailed, which names the arm."""
    variant = run.plan.served.variant(name)
    job = manifests.start_check_job(run.plan, variant, render_context(run, rt))
    keep_failed_logs(rt.kube, rt.store, run_id=run.state.run_id, job=name_of(job))
    rights, limit = manifests.start_check_rights(run.plan, variant), run.plan.experiment.deadlines.start_check
    try:
        return advance_job(run, rt, [job], rights=rights, limit_min=limit, failure=StartCheckFailed)
    except StartCheckFailed as error:
        raise StartCheckFailed(f"{name}: {error}") from None
