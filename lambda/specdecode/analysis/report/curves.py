"""The curve over the load as a table, the same in every form of the report."""

from __future__ import annotations

from collections.abc import Callable

from specdecode.analysis.report.numbers import NONE, compact, digits, dollars, percent
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.curve_result import Curve, LoadPoint, Source
from specdecode.analysis.texts.by_load import advice_by_load
from specdecode.analysis.texts.wording import best_pair

COLUMNS = {
    "load": "Requests at a time, or sent a second",
    "speed-up (95% CI)": "Output tokens a second of whole requests, arm / baseline; geometric mean, Student's t",
    "tokens/s, all": "Tokens a second of the whole server: output tokens / seconds of load",
    "tokens/s a user": "Tokens a second: median over requests of output tokens / end-to-end latency",
    "TTFT p50 / p95": "Seconds from sending a request to its first token: median and 95th percentile over requests",
    "TPOT p50 / p95": "Seconds per output token after the first chunk: median and 95th percentile over requests",
    "tokens/step (break-even)": "Output tokens of a step of the arm (and how many make decoding as fast as without)",
    "$/1M tokens": "Dollars: price of the arm's devices for the seconds of load / million output tokens",
    "good requests": "Share of all requests that keep every limit of the service-level objective",
    "remarks": "",
}
"""Heading and formula. The pairs of figures are base → arm."""
SEEN: dict[Source, str] = {
    "between rounds": "by how far rounds lie apart",
    "around a smooth curve": "by how far loads lie off a smooth curve",
    "assumed": "assumed, since one round of fewer than five loads cannot show it",
}


def shown(comparison: Comparison) -> list[Curve]:
    """The curves with a table: each pair over all cases together. If there are many pairs, only the best one's."""
    curves = [curve for curve in comparison.curve if curve.group == "all"]
    if len(curves) <= 3:
        return curves
    return [curve for curve in curves if curve.variant == best_pair(comparison.pairs).variant]


def headers(curve: Curve) -> list[str]:
    """Headers of the columns that have a value."""
    return [list(COLUMNS)[number] for number in _filled(curve)]


def rows(curve: Curve) -> list[list[str]]:
    """A row for each level, with the columns of `headers`."""
    table = [_row(point) for point in curve.points]
    return [[row[number] for number in _filled(curve)] for row in table]


def formula(header: str) -> str:
    """Unit and formula of a column."""
    return COLUMNS[header]


def sentence(comparison: Comparison, curve: Curve) -> str:
    """The curve in words, and the noise that its intervals include."""
    shared = f"{100 * curve.shared:.2g}% ({SEEN[curve.shared_from]})"
    said = advice_by_load(curve, comparison.objectives_compared)
    return f"{said} Every interval includes noise that all requests of a load share: {shared}."


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
        both(_known(base.output_throughput, digits), _known(other.output_throughput, digits)),
        both(_known(base.user_speed, digits), _known(other.user_speed, digits)),
        _times(base.ttft_p50, base.ttft_p95, other.ttft_p50, other.ttft_p95),
        _times(base.tpot_p50, base.tpot_p95, other.tpot_p50, other.tpot_p95),
        NONE
        if point.acceptance_length is None or point.break_even is None
        else f"{point.acceptance_length:.2f} ({point.break_even:.2f})",
        both(_known(base.cost_per_million, dollars), _known(other.cost_per_million, dollars)),
        both(_known(base.good_share, percent), _known(other.good_share, percent)),
        ", ".join(text for text, there in remarks if there),
    )


def _known(value: float | None, text: Callable[[float], str]) -> str:
    return NONE if value is None else text(value)


def _times(*found: float | None) -> str:
    """`20.2 / 21.5 → 27.0 / 29.4 ms`: all in one unit."""
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return NONE
    factor, unit = (1000.0, "ms") if max(known) < 1 else (1.0, "s")
    half, most, other_half, other_most = (digits(value * factor) for value in known)
    return f"{half} / {most} → {other_half} / {other_most} {unit}"
