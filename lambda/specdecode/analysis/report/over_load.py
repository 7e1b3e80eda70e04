"""A pair over the load: its table, the same in every form of the report, and its charts with their words."""

from collections.abc import Callable
from typing import Any, NamedTuple

from specdecode.analysis.report.blocks import SPEEDUP, Cell, Column, ReportTable
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE, compact, digits, dollars, percent, seconds
from specdecode.analysis.results.over_load import ArmAtLoad, Curve, LoadPoint, Source
from specdecode.analysis.texts.by_load import advice_by_load, rounded
from specdecode.analysis.texts.decide import about, against_root, curve_of, found_over_load
from specdecode.experiment.model import Experiment

Figure = Callable[[ArmAtLoad], float | None]
Shown = Callable[[float], str]
COLUMNS = (
    Column("load", "Requests at a time, or sent a second"),
    SPEEDUP,
    Column("tokens/s, all", "Tokens a second of the whole server: output tokens / seconds of load"),
    Column("tokens/s a user", "Tokens a second: median over requests of output tokens / end-to-end latency"),
    Column("TTFT p50 / p95", "Seconds to the first token: median and 95th percentile over requests"),
    Column(
        "TPOT p50 / p95", "Seconds per output token after the first chunk: median and 95th percentile over requests"
    ),
    Column("tokens/step (break-even)", "Tokens of a step of the arm (and how many make decoding as fast as without)"),
    Column("$/1M tokens", "Dollars: price of the arm's devices for the seconds of load / million output tokens"),
    Column("good requests", "Share of all requests that keep every limit of the service-level objective"),
    Column("remarks", words=True),
)
"""The pairs of figures are base → arm."""
SEEN: dict[Source, str] = {
    "between rounds": "by how far rounds lie apart",
    "around a smooth curve": "by how far loads lie off a smooth curve",
    "assumed": "assumed, since one round of fewer than five loads cannot show it",
}


def shown_curves(comparison: Comparison) -> list[Curve]:
    """The curves with a table: each pair over all cases together. If there are many pairs, only the best one's."""
    curves = [curve for curve in comparison.curve if curve.group == "all"]
    if len(curves) <= 3:
        return curves
    pair = about(comparison)
    return [curve for curve in curves if pair and curve.variant == pair.variant]


def curve_table(comparison: Comparison, curve: Curve) -> ReportTable:
    """A row for each level, with the columns that have a value; below it the curve in words, if the section's answer is
    about another one, and the noise that its intervals include.
    """
    best, found = about(comparison), found_over_load(comparison, curve)
    said = f"{advice_by_load(curve, comparison.objective, found)} "
    if best and curve == curve_of(comparison, against_root(comparison, best)):
        said = ""
    shared = f"{100 * curve.shared:.2g}% ({SEEN[curve.shared_from]})"
    note = f"{said}Every interval includes noise that all requests of a load share: {shared}."
    rows = [_row(point) for point in curve.points]
    filled = [number for number in range(len(COLUMNS)) if any(row[number] not in ("", NONE) for row in rows)]
    body = [[Cell(row[n]) for n in filled] for row in rows]
    own = comparison.experiment.variant(curve.variant).compare_to == curve.baseline
    arm = curve.variant if own else f"{curve.variant} against {curve.baseline}"
    return ReportTable([COLUMNS[n] for n in filled], body, f"{arm} over the load", note)


def _row(point: LoadPoint) -> tuple[str, ...]:
    def both(figure: Figure, show: Shown) -> str:
        values = figure(point.base), figure(point.other)
        return NONE if None in values else " → ".join(show(value) for value in values if value is not None)

    remarks = (("requests queue", point.queueing), ("client fell behind: doubtful", point.doubtful))
    steps = point.acceptance_length, point.break_even
    return (
        str(point.level),
        compact(point.speedup),
        both(lambda at: at.output_throughput, digits),
        both(lambda at: at.user_speed, digits),
        _times(point.base.ttft_p50, point.base.ttft_p95, point.other.ttft_p50, point.other.ttft_p95),
        _times(point.base.tpot_p50, point.base.tpot_p95, point.other.tpot_p50, point.other.tpot_p95),
        NONE if steps[0] is None or steps[1] is None else f"{steps[0]:.2f} ({steps[1]:.2f})",
        both(lambda at: at.cost_per_million, dollars),
        both(lambda at: at.good_share, percent),
        ", ".join(text for text, there in remarks if there),
    )


def _times(*found: float | None) -> str:
    """`20.2 / 21.5 → 27.0 / 29.4 ms`: all in one unit."""
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return NONE
    factor, unit = (1000.0, "ms") if max(known) < 1 else (1.0, "s")
    half, most, other_half, other_most = (digits(value * factor) for value in known)
    return f"{half} / {most} → {other_half} / {other_most} {unit}"


class LoadChart(NamedTuple):
    """A chart over the load: what draws it, its title, and what it shows in words."""

    kind: str
    metric: str
    title: str
    words: str


def curve_charts(curve: Curve, label: Callable[[str], str]) -> list[LoadChart]:
    """The charts of a curve that have something to show; `label`: what an arm is called."""

    def arms(figure: Figure, show: Shown) -> str:
        """`Base 20 ms at 1, 21 ms at 2; SD …`. Empty if no arm has a value."""
        said = []
        for name in (curve.baseline, curve.variant):
            values = [(at, figure(at.base if name == curve.baseline else at.other)) for at in curve.points]
            each = [f"{show(value)} at {at.level.value:g}" for at, value in values if value is not None]
            said += [f"{label(name)} {', '.join(each)}"] if each else []
        return "; ".join(said)

    def join(first: str, second: str, about: str) -> str:
        return f"{first}. {about}: {second}" if first and second else ""

    lengths = "; ".join(
        f"{point.acceptance_length:.2f} against {point.break_even:.2f} at {point.level.value:g}"
        for point in curve.points
        if point.acceptance_length is not None and point.break_even is not None
    )
    most, latency = "95% of requests", "of half the requests; dashed: of 95%"
    tokens = arms(lambda at: at.output_throughput, digits), arms(lambda at: at.user_speed, digits), "a user sees"
    ttft = arms(lambda at: at.ttft_p50, seconds), arms(lambda at: at.ttft_p95, seconds), most
    tpot = arms(lambda at: at.tpot_p50, seconds), arms(lambda at: at.tpot_p95, seconds), most
    found = (
        ("pareto", "", "All tokens a second against those that a user sees", join(*tokens)),
        ("gain", "", "Speed-up (95% CI)", _gains(curve)),
        ("latency", "ttft", f"Time to first token {latency}", join(*ttft)),
        ("latency", "tpot", f"Time per output token {latency}", join(*tpot)),
        ("good", "goodput", "Goodput: requests a second that keep the SLO", arms(lambda at: at.goodput, digits)),
        ("good", "good_share", "Share of requests that keep the SLO", arms(lambda at: at.good_share, percent)),
        ("lengths", "", "Tokens of a step; dashed: break-even", lengths),
    )
    return [
        LoadChart(kind, metric, title, f"{title}, by {curve.points[0].level.unit}: {words}")
        for kind, metric, title, words in found
        if words
    ]


def curve_data(experiment: Experiment, curve: Curve) -> dict[str, Any]:
    """A curve as the script draws it: its own fields, what its loads count, the servers' batch, and the limits."""
    slo = experiment.workload.slo
    return {
        **curve.model_dump(mode="json", include={"baseline", "variant", "points", "crossovers"}),
        "unit": curve.points[0].level.unit,
        "batch": experiment.batch_of(experiment.variant(curve.variant)),
        "limits": {"ttft": slo.ttft_s, "tpot": slo.tpot_s, "good_share": slo.share if slo.asked else None},
    }


def _gains(curve: Curve) -> str:
    gains = "; ".join(f"{compact(point.speedup)} at {point.level.value:g}" for point in curve.points)
    what = "speculation" if curve.of_speculation else curve.variant
    places = "; ".join(
        f"{what} {each.direction} paying at {rounded(each.load)}, 95% CI {rounded(each.low)} to {rounded(each.high)}"
        for each in curve.crossovers
    )
    return f"{gains}. {places or 'No crossover is shown'}"
