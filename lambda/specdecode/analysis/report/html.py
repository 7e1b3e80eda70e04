"""The report as one HTML file that needs nothing else: style, charts, library and data are in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from specdecode.analysis.advice.payoff import Payoff, payoff_line
from specdecode.analysis.loads.k_by_load import in_words
from specdecode.analysis.report import forecasts, over_load, page, tables, tiles
from specdecode.analysis.report.page import ReportView
from specdecode.analysis.results import numbers
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.several_runs.difference import TrendPoint
from specdecode.analysis.texts.setting import NEXT, setting
from specdecode.assets import assets_dir
from specdecode.escape import line, plain, script_json
from specdecode.experiment.told import Forecasted

SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "load.js", "charts.js")
USED = {
    **{name: vars(numbers)[name] for name in ("compact", "dollars", "duration", "figure", "interval", "times")},
    **{
        name: vars(tables)[name]
        for name in ("about_turns", "figures_table", "gain", "work_by_load", "work_sentence", "work_table")
    },
    **{name: vars(over_load)[name] for name in ("curve_charts", "curve_sentence", "curve_table")},
    **{name: vars(tiles)[name] for name in ("CLASSES", "MARKS", "cost_formula", "cost_sentence", "costs", "tiles")},
    **{name: vars(page)[name] for name in ("cases_by_kind", "remarks", "sample")},
    **{name: vars(forecasts)[name] for name in ("forecast_charts", "forecast_table")},
    "FORECAST": forecasts.TITLE,
    "payoff_line": payoff_line,
    "k_by_load": in_words,
    "setting": setting,
    "NEXT": NEXT,
}
"""What the templates call, under its own name."""


def render_html(comparison: Comparison) -> str:
    """The whole page. Untrusted text is escaped by the template engine and stripped of control characters.

    A content security policy in the page forbids every network request and every script but these (by hash).
    """
    seen = ReportView(comparison)
    told, measured = forecasts.forecast_of(comparison)
    data = seen.drawn.data | {"forecast": forecasts.forecast_charts(told, measured)}
    return _page("report.html.j2", data, c=comparison, view=seen, contents=contents(seen), told=told, measured=measured)


def render_forecast(title: str, told: Sequence[Forecasted], payoff: Payoff | None) -> str:
    """One page of a forecast: expected speed-ups as fans, if it is for an experiment, and tokens per step."""
    fans = forecasts.fans(payoff) if payoff else []
    data = {"arms": [], "cases": [], "theory": fans, "forecast": forecasts.forecast_charts(told)}
    return _page("forecast.html.j2", data, title=title, told=told, measured=(), payoff=payoff, fans=fans)


def render_trend(points: Sequence[TrendPoint]) -> str:
    """One page over many runs: speed-up of every arm and group by time. Raises ValueError on none."""
    if not points:
        raise ValueError("a trend needs at least one run")
    series = sorted({name for point in points for name in point.speedups})
    data = {
        "arms": [],
        "cases": [],
        "theory": [],
        "trend": [
            [[p.started_at.timestamp() * 1000, p.speedups[name], line(p.run_id)] for p in points if name in p.speedups]
            for name in series
        ],
    }
    return _page("trend.html.j2", data, points=points, series=series)


def _page(template: str, data: dict[str, Any], **values: Any) -> str:
    scripts = [_asset(name) for name in SCRIPTS]
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        _environment()
        .get_template(template)
        .render(
            **values,
            style=Markup(_asset("style.css")),  # noqa: S704 - our own file
            scripts=[Markup(script) for script in scripts],  # noqa: S704 - our own and the vendored files
            policy=policy,
            data=Markup(script_json(data)),  # noqa: S704 - escaped for a script element
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_folder()),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.globals |= USED
    return environment


def _finalize(value: Any) -> Any:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _folder() -> Path:
    return assets_dir() / "report"


@cache
def _asset(name: str) -> str:
    text = (_folder() / name).read_text(encoding="utf-8")
    if "</script" in text.lower():
        raise ValueError(f"{name} would end its own script element")
    return text


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


class Entry(NamedTuple):
    """A section: its template, the id of its heading, and what it is called."""

    template: str
    id: str
    title: str


def contents(seen: ReportView) -> list[Entry]:
    """The sections after the first screen."""
    comparison = seen.comparison
    has_costs = comparison.cost or any(arm.cost_per_million is not None for arm in comparison.arms)
    compared = any(case.equality.compared for pair in seen.pairs for case in pair.cases)
    found = [
        (seen.curves, Entry("curve", "curve-1", "Over the load")),
        (seen.work, Entry("work", "work-1", "By kind of work")),
        (seen.pairs, Entry("verdicts", "verdict-1", "Prompt type by prompt type")),
        (seen.is_sweep, Entry("matrix", "matrix-h", "All arms")),
        (len(seen.grid.ks) > 1, Entry("sweep", "sweep-h", "Draft and k")),
        (comparison.chains, Entry("chains", "chain-1", "Speed-up of each change")),
        (comparison.experiment.forecast, Entry("forecast", "forecast-h", forecasts.TITLE)),
        (comparison.theory, Entry("theory", "theory-h", "How many speculative tokens")),
        (seen.pairs, Entry("metrics", "metrics-h", "Every metric")),
        (not seen.pairs and comparison.arms, Entry("figures", "figures-h", "Each arm by itself")),
        (seen.turns, Entry("turns", "turns-h", "Turn by turn")),
        (seen.drawn.any_samples, Entry("distributions", "dist-h", "Distributions")),
        (comparison.timeline, Entry("timeline", "time-h", "The run as it went")),
        (has_costs, Entry("cost", "cost-h", "Cost")),
        (seen.winner, Entry("serve", "serve-h", "Serve it again")),
        (compared or comparison.context.accuracy, Entry("equality", "equal-h", "Same text?")),
        (
            comparison.drift or comparison.context.device_groups,
            Entry("conditions", "drift-h", "Same conditions?"),
        ),
        (True, Entry("configuration", "config-h", "What was run")),
    ]
    return [entry for there, entry in found if there]
