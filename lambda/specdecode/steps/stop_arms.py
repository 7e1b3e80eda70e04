"""StopArms: delete the run's workloads and wait until no pod and no device claim of it is left."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

from specdecode.kubernetes.pods import why_hung
from specdecode.kubernetes.resources import name_of
from specdecode.kubernetes.teardown import delete_workloads, run_selector
from specdecode.planning.events import STOP_POLL_S
from specdecode.planning.timeline import STOP_MINUTES
from specdecode.runs.state import StateDamaged, change_state, load_state
from specdecode.steps.errors import TeardownStuck
from specdecode.steps.run import soon
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step

STOP_LIMIT = timedelta(minutes=STOP_MINUTES)
"""The node pool's terminationGracePeriod is 10 minutes: what is left after that does not leave by itself."""


def stop_arms(given: StepInput, rt: Runtime) -> Progress:
    """Done when nothing is left, or it goes with a node that does not answer. Raises TeardownStuck after STOP_LIMIT."""
    left = delete_workloads(rt.kube, selector=run_selector(given.run_id))
    if not left:
        with suppress(StateDamaged):
            change_state(rt.store, given.run_id, stopping_since=None)
        return Progress(done=True, message="no workload is left")
    state = load_state(rt.store, given.run_id)
    if state is None:
        raise StateDamaged(f"run {given.run_id} has no record in which to keep since when it is stopped")
    if _is_hung(state.node, rt):
        return Progress(done=True, message=f"{state.node} does not answer: {len(left)} objects go with it")
    since = min(state.stopping_since or rt.now(), rt.now())
    change_state(rt.store, given.run_id, stopping_since=since)
    text = f"{len(left)} objects are still going: {', '.join(left[:5])}"
    age = rt.now() - since
    if age > STOP_LIMIT:
        raise TeardownStuck(f"after {STOP_LIMIT} {text}")
    return Progress(done=False, message=text, wait_s=soon(age, then_s=STOP_POLL_S))


def _is_hung(name: str | None, rt: Runtime) -> bool:
    """Whether the run's node is one on which pods do not end. It would be paid for until STOP_LIMIT."""
    return any(name_of(node) == name and why_hung(node, rt.now()) for node in rt.kube.list("Node"))


handler = partial(run_step, stop_arms)
