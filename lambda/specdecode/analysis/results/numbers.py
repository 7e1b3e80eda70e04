"""Figures as people read them, everywhere: three significant digits, a unit, and the formula behind them."""

import math
from typing import NamedTuple

from specdecode.analysis.results.pairs import Estimate, MetricInfo
from specdecode.measures.student import CONFIDENCE

NONE = "–"


class Number(NamedTuple):
    """What is shown, and what hovering tells: unit and formula."""

    text: str
    title: str


def digits(value: float) -> str:
    """Three significant digits (all of an integer's), without an exponent and with thousands separated."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else NONE
    if float(value).is_integer():
        return f"{value:,.0f}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 6)}f}"


def seconds(value: float) -> str:
    """Seconds, or milliseconds below one second."""
    return f"{digits(value * 1000)} ms" if abs(value) < 1 else f"{digits(value)} s"


def dollars(value: float) -> str:
    """`$12.30`, four digits below a cent."""
    sign = "-" if value < 0 else ""
    size = abs(value)
    return f"{sign}${size:,.2f}" if size >= 0.1 or size == 0 else f"{sign}${size:.4f}"


def percent(value: float) -> str:
    """A share as a percentage."""
    return f"{value:.1%}" if 0 < abs(value) < 0.1 else f"{value:.0%}"


def signed(value: float) -> str:
    """A change as a percentage: `+4%`, `−45%`."""
    return f"{value:+.0%}".replace("-", "−")


def duration(value: float) -> str:
    """`1 h 02 min`, `2 min 05 s`, `12.3 s`."""
    if value >= 3600:
        return f"{value // 3600:.0f} h {value % 3600 // 60:02.0f} min"
    if value >= 60:
        return f"{value // 60:.0f} min {value % 60:02.0f} s"
    return f"{value:.1f} s"


def times(ratio: float) -> str:
    """A speed-up for people: `1.98×`, `12.3×`."""
    digits = 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"{ratio:.{digits}f}×"


def gain(found: Estimate | None) -> str:
    """A speed-up without its interval."""
    return times(found.ratio) if found else NONE


def compact(found: Estimate) -> str:
    """`1.98× (1.91-2.05)`. Three decimals if two would hide on which side of 1 an end lies."""
    if found.low is None or found.high is None:
        return times(found.ratio)
    digits = 3 if any(0 < abs(end - 1.0) < 0.005 for end in (found.low, found.high)) else 2
    return f"{times(found.ratio)} ({found.low:.{digits}f}–{found.high:.{digits}f})"


def spread(found: Estimate) -> str:
    """`1.98× (95% CI 1.91-2.05)`, for text without a heading that names the range."""
    return compact(found).replace("(", f"({CONFIDENCE:.0%} CI ")


def figure(value: float | None, info: MetricInfo, what: str = "") -> Number:
    """A metric's value with its unit; `what` names the statistic (`median of 8 requests`)."""
    if value is None:
        return Number(NONE, f"{info.label}: no value")
    shown = {"s": seconds, "ratio": percent}.get(info.unit)
    text = shown(value) if shown else f"{digits(value)} {info.unit}"
    stated = f"{what}; " if what else ""
    return Number(text, f"{info.label}: {stated}unit {info.unit}; {info.formula} ({info.better} is better)")


def ratio(found: Estimate | None, info: MetricInfo) -> Number:
    """A speed-up with its interval."""
    if found is None:
        return Number(NONE, f"{info.label}: not comparable")
    direction = "baseline / arm" if info.better == "lower" else "arm / baseline"
    return Number(
        compact(found), f"{info.label}, {direction}, so above 1 is better; geometric mean of {found.n}; {found.method}"
    )


def interval(found: Estimate | None) -> str:
    """`95% CI 1.91-2.05`, in one unbreakable piece."""
    if found is None or found.low is None or found.high is None:
        return "no interval"
    return f"95%\u00a0CI\u00a0{found.low:.2f}\u2060–\u2060{found.high:.2f}"
