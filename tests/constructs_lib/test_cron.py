"""Cron expressions of EventBridge Scheduler: read as its user guide says, counted at least as often as they fire."""

import pytest

from constructs_lib.settings.cron import Firing, firing


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cron(0 1 * * ? *)", Firing(31, 24)),
        ("cron(30 22 ? * MON-FRI *)", Firing(25, 24)),
        ("cron(0 0 1,15 * ? *)", Firing(2, 14 * 24)),
        ("cron(0 0/6 * * ? *)", Firing(124, 6)),
        ("cron(0 1,23 * * ? 2026-2027)", Firing(62, 2)),
        ("cron(0 20 L * ? *)", Firing(1, 28 * 24)),
        ("cron(0 20 ? JAN,jul 6#1 *)", Firing(5, 7 * 24)),
        ("cron(0 20 ? * SAT *)", Firing(5, 7 * 24)),
        ("cron(0 20 15,L * ? *)", Firing(2, 24)),
        ("cron(0 20 1,31 * ? *)", Firing(2, 24)),
        ("cron(0 20 31 * ? *)", Firing(1, 28 * 24)),
        ("cron(0/20 2 ? * SUN *)", Firing(15, 1 / 3)),
    ],
)
def test_it_counts_at_least_as_often_as_they_fire(expression: str, expected: Firing) -> None:
    assert firing(expression) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("0 1 * * ? *", "six fields"),
        ("cron(0 1 * * ?)", "six fields"),
        ("cron(0 1 * * * *)", "not both, is `\\?`"),
        ("cron(0 1 ? * ? *)", "not both, is `\\?`"),
        ("cron(60 1 * * ? *)", "minutes: '60' is not one of 0 to 59"),
        ("cron(0 25 * * ? *)", "hours: '25'"),
        ("cron(0 1 0 * ? *)", "day of the month: '0'"),
        ("cron(0 1 ? * MOO *)", "day of the week: 'MOO'"),
        ("cron(0 5-1 * * ? *)", "no range"),
        ("cron(0 0/0 * * ? *)", "no range or step"),
        ("cron(? 1 * * ? *)", "for days only"),
        ("cron(0 1 * * ? 1900)", "year: '1900'"),
        ("cron(0 1 31 2,4 ? *)", "no such month has a day 31"),
        ("cron(0 ٣ * * ? *)", "hours: '٣'"),
    ],
)
def test_what_is_none_is_refused_with_the_field(expression: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        firing(expression)
