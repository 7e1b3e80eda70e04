"""Runs that start by themselves: the part of the settings that says which, when and at what price."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from pydantic import BaseModel, Field
from specdecode.names import DEFAULT_PRESET

from constructs_lib.pipeline.cron import firing, last_year

if TYPE_CHECKING:
    from constructs_lib.settings.settings import Settings

BLOCK = "block"
"""The schedule of one run: when the Capacity Block begins."""


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


def problems(settings: Settings) -> Iterator[str]:
    """Every problem of the schedule that can be seen without the experiment."""
    if settings.schedule is None:
        own = ScheduleSettings.model_fields
        for key in sorted(key for key in own if getattr(settings, key) != own[key].default):
            yield f"{key}: it belongs to a schedule; set schedule too"
        return
    if (known := available_timezones()) and settings.schedule_time_zone not in known:  # a bare machine knows none
        yield f"schedule_time_zone: {settings.schedule_time_zone} is no time zone such as Europe/Berlin or UTC"
    if settings.schedule == BLOCK:
        if settings.capacity_start is None:
            yield "schedule: a run that starts with the Capacity Block needs capacity_start"
        return
    if settings.schedule.startswith("rate("):
        yield "schedule: a rate begins with the deployment itself, at once; give the hour with cron(…)"
        return
    try:
        firing(settings.schedule)
        if last_year(settings.schedule) < datetime.now(UTC).year:
            yield "schedule: its last year is past: it would never start"
    except ValueError as error:
        yield f"schedule: {error}, or block (given: {settings.schedule!r})"


def has_begun(settings: Settings, *, now: datetime) -> bool:
    """Whether the one time of a block's schedule is past: there is nothing to schedule any more."""
    return settings.schedule == BLOCK and settings.capacity_start is not None and settings.capacity_start <= now
