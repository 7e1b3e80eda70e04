"""The comparison as one CSV table in long form: a row for each arm, case and metric, and for each speed-up."""

import csv
import io
from collections.abc import Iterator, Mapping

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import HEADLINE, Estimate, MetricInfo
from specdecode.analysis.texts.decide import decided
from specdecode.escape import csv_cell
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.metrics.formulas import acceptance_rate

STATISTICS = ("n", "mean", "stddev", "min", "p25", "p50", "p75", "p90", "p95", "p99", "max")
COLUMNS = (
    *("run_id", "kind", "variant", "baseline", "case", "load", "metric", "unit"),
    *STATISTICS,
    *("value", "low", "high", "verdict", "formula"),
)
Row = Mapping[str, str | float | int | None]


def render_csv(comparison: Comparison) -> str:
    """Rows of kind `metric` (percentiles), `aggregate` (one value), `speedup` (value, low, high, verdict), decision."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in _rows(comparison):
        cells = {key: csv_cell(value) if isinstance(value, str) else value for key, value in row.items()}
        writer.writerow({"run_id": csv_cell(comparison.run_id), **cells})
    return out.getvalue()


def _rows(comparison: Comparison) -> Iterator[Row]:
    info = {metric.name: metric for metric in comparison.metrics}
    for arm in comparison.arms:
        place = {"variant": arm.variant, "case": arm.case}
        for name, summary in arm.metrics.items():
            figures = {name: getattr(summary, name) for name in STATISTICS}
            known = {"metric": name, "unit": info[name].unit, "formula": info[name].formula}
            yield {"kind": "metric", **place, **known, **figures}
        for name, unit, value, formula in (
            ("requests", "requests", arm.requests, "requests sent, without warm-up"),
            ("failed", "requests", arm.failed, "requests that ended in an error"),
            ("load_seconds", "s", arm.load_seconds, "last end - first send, over each process that measured"),
            ("cost_per_million", "$", arm.cost_per_million, "price/3600 * share of node * load / tokens * 1e6"),
            *((tag, info[tag].unit, value, _formula(info[tag], arm)) for tag, value in arm.totals.items()),
        ):
            if value is not None:
                yield {"kind": "aggregate", **place, "metric": name, "unit": unit, "value": value, "formula": formula}
    for pair in comparison.pairs:
        for case in pair.cases:
            for estimate in case.speedups:
                verdict = case.verdict.value if estimate == case.headline else ""
                names = {"variant": pair.variant, "baseline": pair.baseline, "case": case.case}
                yield {"kind": "speedup", **names, **_estimate(estimate), "verdict": verdict}
    for found in decided(comparison).findings:
        place = {"variant": found.variant, "case": found.case or found.group or "", "load": found.load}
        told: Row = _estimate(found.speedup) if found.speedup else {"metric": HEADLINE, "unit": "ratio"}
        yield {
            "kind": "decision",
            **place,
            "baseline": found.baseline,
            **told,
            "verdict": found.action.value,
            "formula": found.why,
        }
    yield from _curves(comparison)
    yield from _objectives(comparison)


def _curves(comparison: Comparison) -> Iterator[Row]:
    """Rows of kind `curve` (speed-up at a load) and `crossover`; `case` holds the group, `load` the level."""
    for curve in comparison.curve:
        place = {"variant": curve.variant, "baseline": curve.baseline, "case": curve.group}
        for point in curve.points:
            yield {"kind": "curve", **place, "load": point.level.name, **_estimate(point.speedup)}
        for crossing in curve.crossovers:
            ends = {"value": crossing.load, "low": crossing.low, "high": crossing.high}
            unit = "requests/s" if curve.points[0].level.rate is not None else "requests"
            yield {"kind": "crossover", **place, "metric": crossing.direction, **ends, "unit": unit}


def _objectives(comparison: Comparison) -> Iterator[Row]:
    """Rows of kind `objective`: what an arm does at a load of all its cases, and the largest load that it carries."""
    for found in comparison.objective:
        place: Row = {"kind": "objective", "variant": found.variant}
        for each in found.loads:
            at: Row = {**place, "load": each.level.name, "n": each.requests}
            yield {**at, "metric": "good_requests", "unit": "ratio", "value": each.share}
            if each.goodput is not None:
                yield {**at, "metric": "goodput", "unit": "requests/s", "value": each.goodput}
        unit = "requests/s" if found.loads[0].level.rate is not None else "requests"
        kept: Row = {"value": found.keeps.value, "load": found.keeps.name} if found.keeps else {"value": 0}
        yield {**place, "metric": "largest_load_kept", "unit": unit, **kept}


def _formula(info: MetricInfo, arm: ArmCase) -> str:
    return f"{info.formula} ({arm.acceptance_source})" if info.name == acceptance_rate.tag else info.formula


def _estimate(found: Estimate) -> Row:
    figures = {"n": found.n, "value": found.ratio, "low": found.low, "high": found.high}
    return {"metric": found.metric, "unit": "ratio", **figures, "formula": found.method}
