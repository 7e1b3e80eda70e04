"""Two runs side by side, and many in a row: did something get better or worse between them?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from specdecode.analysis.result import HEADLINE, CaseResult, Comparison, Estimate, Verdict
from specdecode.analysis.statistics import CONFIDENCE, LogMean, combine, t_quantile
from specdecode.analysis.verdict import estimate
from specdecode.experiment.model import Frozen

METHOD = "ratio of two runs' speed-ups; Welch's t on the log scale"


class CaseChange(Frozen):
    """One arm and case in both runs."""

    variant: str
    case: str
    before: Estimate
    after: Estimate
    change: Estimate
    """after / before: above 1 the second run's speed-up is larger."""
    shown: bool
    """The interval of the change excludes 1."""
    verdict_before: Verdict
    verdict_after: Verdict


class RunDifference(Frozen):
    """The second run against the first."""

    before: str
    after: str
    cases: tuple[CaseChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    settings: tuple[str, ...]
    """What else differs between the runs: versions and experiment, one line each."""


class TrendPoint(Frozen):
    """One run of a series."""

    run_id: str
    experiment: str
    started_at: datetime
    answer: str
    speedups: dict[str, float]
    """`variant/group` -> speed-up on the headline metric."""
    failed: int


def difference(before: Comparison, after: Comparison) -> RunDifference:
    """Compare two runs' speed-ups, arm by arm and case by case."""
    first, second = _cases(before), _cases(after)
    changes: list[CaseChange] = []
    for key in first.keys() & second.keys():
        a, b = first[key], second[key]
        if a.headline is None or b.headline is None:
            continue
        change = estimate(HEADLINE, combine((_log(b.headline), _log(a.headline)), (1.0, -1.0)), method=METHOD)
        changes.append(
            CaseChange(
                variant=key[0],
                case=key[1],
                before=a.headline,
                after=b.headline,
                change=change,
                shown=change.low is not None and change.high is not None and not change.low <= 1.0 <= change.high,
                verdict_before=a.verdict,
                verdict_after=b.verdict,
            )
        )
    return RunDifference(
        before=before.run_id,
        after=after.run_id,
        cases=tuple(sorted(changes, key=lambda item: (item.variant, item.case))),
        only_before=_names(first.keys() - second.keys()),
        only_after=_names(second.keys() - first.keys()),
        settings=tuple(_settings(before, after)),
    )


def trend(comparisons: Sequence[Comparison]) -> list[TrendPoint]:
    """The runs in the order of their start."""
    return [
        TrendPoint(
            run_id=item.run_id,
            experiment=item.experiment.name,
            started_at=item.context.started_at,
            answer=item.answer,
            speedups={
                f"{pair.variant}/{group.group}": group.headline.ratio
                for pair in item.pairs
                for group in pair.groups
                if group.headline
            },
            failed=sum(arm.failed for arm in item.arms),
        )
        for item in sorted(comparisons, key=lambda item: item.context.started_at)
    ]


def _cases(comparison: Comparison) -> dict[tuple[str, str], CaseResult]:
    return {(pair.variant, case.case): case for pair in comparison.pairs for case in pair.cases}


def _names(keys: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(sorted("/".join(key) for key in keys))


def _log(found: Estimate) -> LogMean:
    """The log mean behind an interval."""
    if found.low is None or found.high is None or found.n < 2:
        return LogMean(math.log(found.ratio), 0.0, 0.0, found.n)
    df = found.n - 1.0
    error = (math.log(found.high) - math.log(found.low)) / 2.0 / t_quantile(0.5 + CONFIDENCE / 2.0, df)
    return LogMean(math.log(found.ratio), error**2, df, found.n)


def _settings(before: Comparison, after: Comparison) -> Iterable[str]:
    for name in sorted(before.context.versions.keys() | after.context.versions.keys()):
        old, new = before.context.versions.get(name, "unknown"), after.context.versions.get(name, "unknown")
        if old != new:
            yield f"{name}: {old} -> {new}"
    yield from _paths("", before.experiment.model_dump(mode="json"), after.experiment.model_dump(mode="json"))


def _paths(path: str, old: object, new: object) -> Iterable[str]:
    """Leaves that differ, as `workload.requests: 8 -> 50`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _paths(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _paths(f"{path}.{number}", left, right)
    elif old != new:
        yield f"{path}: {_short(old)} -> {_short(new)}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
