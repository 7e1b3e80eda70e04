"""What the settings of a schedule must satisfy. Pure checks that return one line a problem."""

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import available_timezones

from constructs_lib.settings.cron import firing, last_year
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.schedule_fields import BLOCK, ScheduleSettings


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
    """Whether the Capacity Block has begun, so that there is nothing to schedule any more."""
    return settings.schedule == BLOCK and settings.capacity_start is not None and settings.capacity_start <= now
