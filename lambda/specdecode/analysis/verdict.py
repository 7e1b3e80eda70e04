"""From an interval to a word."""

from __future__ import annotations

import math

from specdecode.analysis.result import ArmCase, Estimate, Verdict
from specdecode.analysis.statistics import CONFIDENCE, LogMean

MAX_FAILED = 0.05
"""Share of failed requests above which an arm's surviving requests are no fair sample of its speed."""


def estimate(metric: str, stat: LogMean, *, method: str) -> Estimate:
    """The speed-up and its interval, from the log scale."""
    interval = stat.interval()
    return Estimate(
        metric=metric,
        ratio=stat.ratio,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        n=stat.n,
        method=method,
    )


def times(ratio: float) -> str:
    """A speed-up for people: `1.98×`, `12.3×`."""
    digits = 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"{ratio:.{digits}f}×"


def compact(found: Estimate) -> str:
    """`1.98× (1.91-2.05)`; three decimals where two would hide on which side of 1 an end lies."""
    if found.low is None or found.high is None:
        return times(found.ratio)
    digits = 3 if any(0 < abs(end - 1.0) < 0.005 for end in (found.low, found.high)) else 2
    return f"{times(found.ratio)} ({found.low:.{digits}f}–{found.high:.{digits}f})"


def spread(found: Estimate) -> str:
    """`1.98× (95% CI 1.91-2.05)`, where no heading says what the range is."""
    return compact(found).replace("(", f"({CONFIDENCE:.0%} CI ")


def judge(found: Estimate | None, *, drift: float = 1.0) -> tuple[Verdict, str]:
    """Pays if the whole interval lies above `drift` (>= 1), costs if all of it lies below 1/drift, else neither.

    `drift` is how far the baseline moved between two measurements of itself, where that was shown: a speed-up
    smaller than that has not been shown, whatever the requests' own spread says.
    """
    if found is None:
        return Verdict.CANNOT_SAY, "no prompt was completed by both arms"
    if found.low is None or found.high is None:
        return Verdict.CANNOT_SAY, f"{times(found.ratio)} from one value per arm: no interval, so no verdict"
    beyond = f" and beyond the baseline's own drift of {abs(math.log(drift)):.1%}" if drift > 1.0 else ""
    if found.low > drift:
        return Verdict.PAYS, f"{spread(found)}: the whole interval lies above 1{beyond}"
    if found.high < 1.0 / drift:
        return Verdict.COSTS, f"{spread(found)}: the whole interval lies below 1{beyond}"
    if found.low > 1.0 or found.high < 1.0:
        return (
            Verdict.NO_DIFFERENCE,
            f"{spread(found)}: not beyond the baseline's own drift of {abs(math.log(drift)):.1%}",
        )
    return Verdict.NO_DIFFERENCE, f"{spread(found)}: the interval contains 1"


def too_many_failed(*arms: ArmCase) -> str | None:
    """Why these arms cannot be compared, or None: failed requests leave a biased rest."""
    for arm in arms:
        if arm.requests and arm.failed / arm.requests > MAX_FAILED:
            kinds = ", ".join(f"{count} {kind}" for kind, count in arm.errors.items())
            return (
                f"{arm.failed} of {arm.requests} requests of {arm.variant} failed ({kinds}): the rest is no fair sample"
            )
    return None
