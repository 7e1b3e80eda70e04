"""The curve over the load as a table, the same in every form of the report."""

from __future__ import annotations

from specdecode.analysis.by_load import advice_by_load
from specdecode.analysis.curve_result import ArmAtLoad, Curve, LoadPoint
from specdecode.analysis.report.numbers import NONE, compact, digits, dollars, percent, seconds
from specdecode.analysis.result import Comparison
from specdecode.analysis.wording import best_pair

COLUMNS = (
    "load",
    "speed-up (95% CI)",
    "tokens/s, all",
    "tokens/s a user",
    "TTFT p50 / p95",
    "TPOT p50 / p95",
    "tokens/step (break-even)",
    "$/1M tokens",
    "good requests",
    "remarks",
)
"""The pairs of figures are base → arm."""


def shown(comparison: Comparison) -> list[Curve]:
    """The curves worth a table: all cases together of each pair, of many pairs of the best one."""
    curves = [curve for curve in comparison.curve if curve.group == "all"]
    if len(curves) <= 3:
        return curves
    return [curve for curve in curves if curve.variant == best_pair(comparison.pairs).variant]


def headers(curve: Curve) -> list[str]:
    """The columns that have a value somewhere."""
    return [COLUMNS[number] for number in _filled(curve)]


def rows(curve: Curve) -> list[list[str]]:
    """A row for each level, as `headers` has the columns."""
    table = [_row(point) for point in curve.points]
    return [[row[number] for number in _filled(curve)] for row in table]


def sentence(comparison: Comparison, curve: Curve) -> str:
    """What the curve says, in words."""
    return advice_by_load(curve, comparison.experiment.workload.slo)


def _filled(curve: Curve) -> list[int]:
    table = [_row(point) for point in curve.points]
    return [number for number in range(len(COLUMNS)) if any(row[number] not in ("", NONE) for row in table)]


def _row(point: LoadPoint) -> tuple[str, ...]:
    def both(first: str, second: str) -> str:
        return NONE if NONE in (first, second) else f"{first} → {second}"

    base, other = point.base, point.other
    remarks = (("requests queue", point.queueing), ("client fell behind: doubtful", point.doubtful))
    return (
        str(point.level),
        compact(point.speedup),
        both(_digits(base.output_throughput), _digits(other.output_throughput)),
        both(_digits(base.user_speed), _digits(other.user_speed)),
        both(_ttft(base), _ttft(other)),
        both(_tpot(base), _tpot(other)),
        NONE
        if point.acceptance_length is None or point.break_even is None
        else f"{point.acceptance_length:.2f} ({point.break_even:.2f})",
        both(_dollars(base.cost_per_million), _dollars(other.cost_per_million)),
        both(_percent(base.good_share), _percent(other.good_share)),
        ", ".join(text for text, there in remarks if there),
    )


def _digits(value: float | None) -> str:
    return NONE if value is None else digits(value)


def _dollars(value: float | None) -> str:
    return NONE if value is None else dollars(value)


def _percent(value: float | None) -> str:
    return NONE if value is None else percent(value)


def _ttft(arm: ArmAtLoad) -> str:
    return _seconds(arm.ttft_p50, arm.ttft_p95)


def _tpot(arm: ArmAtLoad) -> str:
    return _seconds(arm.tpot_p50, arm.tpot_p95)


def _seconds(half: float | None, most: float | None) -> str:
    return NONE if half is None or most is None else f"{seconds(half)} / {seconds(most)}"
