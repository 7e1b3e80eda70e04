"""Values of a chart, compared with those that the chart reads."""

from collections.abc import Iterator
from typing import Any


def unknown(values: Any, chart: Any) -> list[str]:
    """The paths of `values` that a chart's own values do not have: Helm would take them and do nothing."""
    return [".".join(path) for path in _leaves(values) if not _in(chart, path)]


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    else:
        yield path


def _in(chart: Any, path: tuple[str, ...]) -> bool:
    """Whether the chart has the path; below an empty map or a null of its own anything is allowed."""
    for step in path:
        if chart in ({}, None):
            return True
        if not isinstance(chart, dict) or step not in chart:
            return False
        chart = chart[step]
    return True
