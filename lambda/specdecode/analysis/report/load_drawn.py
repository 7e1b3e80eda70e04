"""Data of the charts over the load, and each chart in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from specdecode.analysis.report.numbers import compact, digits, percent, seconds
from specdecode.analysis.results.curve_result import ArmAtLoad, Curve, LoadPoint
from specdecode.analysis.texts.by_load import rounded
from specdecode.experiment.model import Experiment


class LoadChart(NamedTuple):
    """A chart over the load: what draws it, its title, and what it shows in words."""

    kind: str
    metric: str
    title: str
    words: str


Figure = Callable[[ArmAtLoad], float | None]
Shown = Callable[[float], str]


def unit(curve: Curve) -> str:
    """Unit of a curve's loads."""
    return "requests a second" if curve.points[0].level.rate is not None else "requests at a time"


def data(experiment: Experiment, curve: Curve) -> dict[str, Any]:
    """A curve as the script draws it. Times in seconds. `None` if there is no value."""
    slo = experiment.workload.slo
    return {
        "unit": unit(curve),
        "base": curve.baseline,
        "arm": curve.variant,
        "batch": experiment.batch,
        "limits": {
            "ttft": slo.ttft_s,
            "tpot": slo.tpot_s,
            "good_share": slo.share if slo.asked else None,
        },
        "crossovers": [[each.load, each.low, each.high] for each in curve.crossovers],
        "points": [_point(point) for point in curve.points],
    }


def charts(experiment: Experiment, curve: Curve, label: Callable[[str], str]) -> list[LoadChart]:
    """The charts of a curve that have something to show; `label`: what an arm is called."""
    base, arm = label(curve.baseline), label(curve.variant)

    def arms(figure: Figure, show: Shown) -> str:
        """`Base 20 ms at 1, 21 ms at 2; SD …`. Empty if no arm has a value."""
        both = (
            (base, [(point, figure(point.base)) for point in curve.points]),
            (arm, [(point, figure(point.other)) for point in curve.points]),
        )
        said = [
            f"{name} "
            + ", ".join(f"{show(value)} at {point.level.value:g}" for point, value in values if value is not None)
            for name, values in both
            if any(value is not None for _, value in values)
        ]
        return "; ".join(said)

    lengths = "; ".join(
        f"{point.acceptance_length:.2f} against {point.break_even:.2f} at {point.level.value:g}"
        for point in curve.points
        if point.acceptance_length is not None and point.break_even is not None
    )
    found = [
        (
            LoadChart("pareto", "", "All tokens a second against those that a user sees", ""),
            _join(arms(lambda at: at.output_throughput, digits), arms(lambda at: at.user_speed, digits), "a user sees"),
        ),
        (LoadChart("gain", "", "Speed-up (95% CI)", ""), _gains(curve)),
        (
            LoadChart("latency", "ttft", "Time to first token of half the requests; dashed: of 95%", ""),
            _join(arms(lambda at: at.ttft_p50, seconds), arms(lambda at: at.ttft_p95, seconds), "95% of requests"),
        ),
        (
            LoadChart("latency", "tpot", "Time per output token of half the requests; dashed: of 95%", ""),
            _join(arms(lambda at: at.tpot_p50, seconds), arms(lambda at: at.tpot_p95, seconds), "95% of requests"),
        ),
        (
            LoadChart("good", "goodput", "Goodput: requests a second that keep the SLO", ""),
            arms(lambda at: at.goodput, digits),
        ),
        (
            LoadChart("good", "good_share", "Share of requests that keep the SLO", ""),
            arms(lambda at: at.good_share, percent),
        ),
        (LoadChart("lengths", "", "Tokens of a step; dashed: break-even", ""), lengths),
    ]
    return [chart._replace(words=f"{chart.title}, by {unit(curve)}: {words}") for chart, words in found if words]


def _join(first: str, second: str, about: str) -> str:
    return f"{first}. {about}: {second}" if first and second else ""


def _gains(curve: Curve) -> str:
    gains = "; ".join(f"{compact(point.speedup)} at {point.level.value:g}" for point in curve.points)
    what = "speculation" if curve.of_speculation else curve.variant
    places = "; ".join(
        f"{what} {each.direction} paying at {rounded(each.load)}, 95% CI {rounded(each.low)} to {rounded(each.high)}"
        for each in curve.crossovers
    )
    return f"{gains}. {places or 'No crossover is shown'}"


def _point(point: LoadPoint) -> dict[str, Any]:
    gain = point.speedup
    return {
        "at": point.level.value,
        "queues": point.queueing,
        "doubtful": point.doubtful,
        "gain": [
            gain.ratio,
            gain.low if gain.low is not None else gain.ratio,
            gain.high if gain.high is not None else gain.ratio,
        ],
        "arms": [_arm(point.base), _arm(point.other)],
        "accepted": point.acceptance_length,
        "even": point.break_even,
    }


def _arm(arm: ArmAtLoad) -> dict[str, Any]:
    return {
        "all": arm.output_throughput,
        "user": arm.user_speed,
        "ttft": [arm.ttft_p50, arm.ttft_p95],
        "tpot": [arm.tpot_p50, arm.tpot_p95],
        "goodput": arm.goodput,
        "good_share": arm.good_share,
    }
