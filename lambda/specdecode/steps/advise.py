"""Advise: after a wave of an adaptive sweep, plan the next one from what is measured so far, or end the sweep."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from specdecode.steps.runtime import Runtime, StepInput, run_step
from specdecode.steps.sweeping import grow


class Advised(BaseModel):
    """The fields that the state machine needs."""

    waves: int
    """Number of waves that are planned now."""
    message: str


def advise(given: StepInput, rt: Runtime) -> Advised:
    plan = grow(given.run_id, rt)
    reason = plan.sweep.steps[-1].reason if plan.sweep else "the experiment is no adaptive sweep"
    return Advised(waves=len(plan.waves), message=reason)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(advise, event, context)
