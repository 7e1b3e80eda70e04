"""The report as one HTML file that needs nothing else: style, charts, library and data are in it."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from specdecode.analysis.advice.payoff import Payoff, payoff_line
from specdecode.analysis.report import forecasts, tiles
from specdecode.analysis.report.over_load import curve_charts
from specdecode.analysis.report.page import ReportView
from specdecode.analysis.report.sections import sections
from specdecode.analysis.results import numbers
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.several_runs.difference import TrendPoint
from specdecode.assets import assets_dir
from specdecode.escape import line, plain, script_json
from specdecode.experiment.told import Forecasted

SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "load.js", "swept.js", "charts.js")
USED = {
    **{name: vars(numbers)[name] for name in ("compact", "duration", "figure", "gain", "interval", "times")},
    **{name: vars(tiles)[name] for name in ("CLASSES", "MARKS", "tiles")},
    **{name: vars(forecasts)[name] for name in ("forecast_charts", "forecast_table")},
    "FORECAST": forecasts.TITLE,
    "payoff_line": payoff_line,
    "curve_charts": curve_charts,
    "coded": lambda text: _coded(text),
    "kind": lambda block: type(block).__name__,
}
"""What the templates call, under its own name."""


def render_html(comparison: Comparison) -> str:
    """The whole page. Untrusted text is escaped by the template engine and stripped of control characters.

    A content security policy in the page forbids every network request and every script but these (by hash).
    """
    seen = ReportView(comparison)
    told, measured = forecasts.forecast_of(comparison)
    data = seen.data | {"forecast": forecasts.forecast_charts(told, measured)}
    found = sections(seen)
    return _page("report.html.j2", data, c=comparison, view=seen, sections=found, told=told, measured=measured)


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
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
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
        loader=FileSystemLoader(assets_dir() / "report"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.globals |= USED
    return environment


@cache
def _asset(name: str) -> str:
    text = (assets_dir() / "report" / name).read_text(encoding="utf-8")
    if "</script" in text.lower():
        raise ValueError(f"{name} would end its own script element")
    return text


def _coded(text: str) -> Markup:
    """Text whose commands stand in backticks, as a page shows them."""
    return Markup("").join(
        Markup("<code>{}</code>" if at % 2 else "{}").format(part)  # noqa: S704 - format escapes
        for at, part in enumerate(plain(text).split("`"))
    )
