"""Advise: after the last wave of an adaptive sweep, plan one more from what is measured so far, or end the sweep."""

from typing import Any

from pydantic import BaseModel

from specdecode.steps.runtime import Runtime, StepInput, run_step
from specdecode.steps.sweeping import grow


class Advised(BaseModel):
    """The fields that the state machine needs."""

    waves: int
    """Number of waves that are planned now."""
    adaptive: bool
    """Whether the advisor is asked again after the last of them."""
    message: str


def advise(given: StepInput, rt: Runtime) -> Advised:
    plan = grow(given.run_id, rt)
    if plan.sweep is None:
        return Advised(waves=len(plan.waves), adaptive=False, message="the experiment is no adaptive sweep")
    return Advised(waves=len(plan.waves), adaptive=not plan.sweep.is_over, message=plan.sweep.steps[-1].reason)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(advise, event, context)
