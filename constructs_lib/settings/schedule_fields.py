"""The part of the settings that says which runs start by themselves, when, and what they may cost."""

from __future__ import annotations

from pydantic import BaseModel, Field
from specdecode.names import DEFAULT_PRESET

BLOCK = "block"
"""Value of `schedule` for one run that starts when the Capacity Block begins."""


class ScheduleSettings(BaseModel):
    """No run starts by itself unless `schedule` is given."""

    schedule: str | None = Field(
        None,
        description="When a run starts by itself: `cron(0 1 * * ? *)`, or `block` for one as the Capacity Block begins "
        "([how](how-to/run-on-a-schedule.md)); unset, never.",
    )
    schedule_experiment: str = Field(DEFAULT_PRESET, description="What it runs: a preset, or a YAML file.")
    schedule_time_zone: str = Field("UTC", description="Time zone of `schedule`, as `Europe/Berlin`.")
    schedule_accept_cost_usd: float | None = Field(
        None,
        gt=0,
        description="USD that each such run may cost at most, by its deadlines; an experiment that could cost more is "
        "refused at synth. Unset, `accept_cost_above_usd`.",
    )
