"""Cron expressions of EventBridge Scheduler: are they well formed, and how often do they fire at most.

`cron(minutes hours day-of-month month day-of-week year)`; one of the two fields for days is `?`
(docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html).
"""

import re
from itertools import pairwise
from typing import NamedTuple

DAYS_OF_A_MONTH, WEEKS_OF_A_MONTH = 31, 5
MONTH_LENGTHS, WEEK_LENGTHS, DAY = (28, 29, 30, 31), (7,), 24 * 60
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class _Field(NamedTuple):
    name: str
    first: int
    last: int
    words: tuple[str, ...] = ()
    special: str = r"(?!)"
    """What else may stand for one day."""


_FIELDS = (
    _Field("minutes", 0, 59),
    _Field("hours", 0, 23),
    _Field("day of the month", 1, 31, (), r"L|L-\d{1,2}|LW|\d{1,2}W"),
    _Field("month", 1, 12, MONTHS),
    _Field("day of the week", 1, 7, WEEKDAYS, r"[1-7]L|[1-7]#[1-5]|L"),
    _Field("year", 1970, 2199),
)


class Firing(NamedTuple):
    """How often an expression fires at most."""

    a_month: int
    hours_apart: float
    """Shortest time between two."""


def firing(expression: str) -> Firing:
    """How often `cron(…)` fires at most; the month and the year are not counted. Raises ValueError for what is none."""
    found = re.fullmatch(r"cron\((.+)\)", expression.strip())
    parts = found[1].split() if found else []
    if len(parts) != len(_FIELDS):
        raise ValueError("write it as cron(minutes hours day-of-month month day-of-week year), six fields")
    if (parts[2] == "?") == (parts[4] == "?"):
        raise ValueError("one of day-of-month and day-of-week, and not both, is `?`")
    values = [_values(part, field) for part, field in zip(parts, _FIELDS, strict=True)]
    minutes, hours, of_month, months, of_week, _ = values
    longest = max(29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31 for month in months)
    if min(of_month) > longest:
        raise ValueError(f"day of the month: no such month has a day {min(of_month)}")
    days, cycles = (of_month, MONTH_LENGTHS) if parts[4] == "?" else (of_week, WEEK_LENGTHS)
    times = [60 * hour + minute for hour in hours for minute in minutes]
    return Firing(
        a_month=len(times) * (len(days) if parts[4] == "?" else min(DAYS_OF_A_MONTH, WEEKS_OF_A_MONTH * len(days))),
        hours_apart=min(_apart(times, days, cycle) for cycle in cycles) / 60,
    )


def last_year(expression: str) -> int:
    """The last year in which a well-formed `cron(…)` fires."""
    return max(_values(expression.strip().removesuffix(")").split()[-1], _FIELDS[-1]))


def _apart(times: list[int], days: set[int], cycle: int) -> int:
    """Shortest time in minutes between two, where `days` come again after `cycle` days."""
    if len(days) > 1 and min(days) < 0:  # nobody knows beside which day a special one falls
        days = set(range(1, cycle + 1))
    moments = sorted(day * DAY + time for day in days for time in times if day <= cycle)
    if not moments:
        return cycle * DAY
    return min(after - before for before, after in pairwise([*moments, moments[0] + cycle * DAY]))


def _values(text: str, field: _Field) -> set[int]:
    """The values that a field stands for; a special day counts as one."""
    if text in ("*", "?"):
        if text == "?" and not field.name.startswith("day"):
            raise ValueError(f"{field.name}: `?` is for days only")
        return set(range(field.first, field.last + 1))
    found: set[int] = set()
    for number, part in enumerate(text.split(",")):
        if re.fullmatch(field.special, part):
            found.add(-1 - number)
            continue
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        low = field.first if span == "*" else _value(first, field)
        high = _value(last, field) if dash else field.last if slash or span == "*" else low
        if low > high or (slash and not re.fullmatch(r"[1-9]\d*", step)):
            raise ValueError(f"{field.name}: {part!r} is no range or step")
        found.update(range(low, high + 1, int(step) if slash else 1))
    return found


def _value(text: str, field: _Field) -> int:
    if text.upper() in field.words:
        return field.words.index(text.upper()) + 1
    if not re.fullmatch(r"[0-9]{1,4}", text) or not field.first <= int(text) <= field.last:
        raise ValueError(f"{field.name}: {text!r} is not one of {field.first} to {field.last}")
    return int(text)
