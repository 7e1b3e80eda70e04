"""The charts over the load: each draws the curve's own figures, says them in words, and marks what is to be doubted."""

import html
import re
from pathlib import Path

import pytest
from specdecode.analysis import Comparison
from specdecode.analysis.report import render_html
from specdecode.analysis.results.numbers import compact, digits
from specdecode.analysis.texts.by_load import rounded

from tests.specdecode.analysis.browser import chromium, looked
from tests.specdecode.analysis.simulate_load import at_loads

CHARTS = [
    ("pareto", ""),
    ("gain", ""),
    ("latency", "ttft"),
    ("latency", "tpot"),
    ("good", "goodput"),
    ("good", "good_share"),
    ("lengths", ""),
]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Six loads: the crossover is at 9 at a time, the largest queues, and at the second the client fell behind."""
    found = at_loads()
    curve = found.curve[0]
    points = [each.model_copy(update={"doubtful": number == 1}) for number, each in enumerate(curve.points)]
    return found.model_copy(update={"curve": (curve.model_copy(update={"points": tuple(points)}),)})


@pytest.fixture(scope="module")
def page(comparison: Comparison) -> str:
    return render_html(comparison)


def figures(page: str) -> dict[tuple[str, str], str]:
    """Text of each chart of the section, by kind and metric."""
    section = page[page.index('aria-labelledby="load"') :].split("</section>")[0]
    return {
        (kind, metric): html.unescape(words)
        for kind, metric, words in re.findall(
            r'data-chart="(\w+)" data-index="0" data-metric="(\w*)">.*?aria-label="([^"]*)"', section
        )
    }


def time(seconds: float | None) -> str:
    assert seconds is not None
    return f"{digits(seconds * 1000)} ms" if seconds < 1 else f"{digits(seconds)} s"


def test_every_question_has_its_chart_and_every_chart_says_its_figures(comparison: Comparison, page: str) -> None:
    words, points = figures(page), comparison.curve[0].points
    assert list(words) == CHARTS
    for point in points:
        at = f" at {point.level.value:g}"
        assert point.acceptance_length is not None and point.break_even is not None
        assert f"{compact(point.speedup)}{at}" in words["gain", ""]
        assert f"{point.acceptance_length:.2f} against {point.break_even:.2f}{at}" in words["lengths", ""]
        for arm in (point.base, point.other):
            assert f"{digits(arm.output_throughput or 0)}{at}" in words["pareto", ""]
            assert f"{digits(arm.user_speed or 0)}{at}" in words["pareto", ""]
            assert f"{time(arm.ttft_p95)}{at}" in words["latency", "ttft"]
            assert f"{time(arm.tpot_p50)}{at}" in words["latency", "tpot"]
            assert f"{digits(arm.goodput or 0)}{at}" in words["good", "goodput"]
    (place,) = comparison.curve[0].crossovers
    assert f"speculation stops paying at {rounded(place.load)}, 95% CI" in words["gain", ""]
    assert all("by requests at a time" in text for text in words.values())


def test_without_an_objective_there_is_no_chart_of_it(comparison: Comparison) -> None:
    curve = comparison.curve[0]
    bare = {"good_share": None, "goodput": None}
    points = [
        point.model_copy(update={arm: getattr(point, arm).model_copy(update=bare) for arm in ("base", "other")})
        for point in curve.points
    ]
    found = comparison.model_copy(update={"curve": (curve.model_copy(update={"points": tuple(points)}),)})
    assert [kind for kind, _ in figures(render_html(found))] == ["pareto", "gain", "latency", "latency", "lengths"]


SECTION = "document.querySelector('#load').closest('section')"
MARKS = f"""
Object.fromEntries([...{SECTION}.querySelectorAll('figure.chart')].map(figure => [
  figure.dataset.chart + figure.dataset.metric,
  {{
    text: [...figure.querySelectorAll('svg text')].map(each => each.textContent).join(' | '),
    hollow: figure.querySelectorAll('[aria-label=dot] [fill="var(--card)"]').length,
    shapes: new Set([...figure.querySelectorAll('[aria-label=dot] path')].map(each => each.getAttribute('d'))).size,
    bands: figure.querySelectorAll('[aria-label=rect] rect').length,
    readings: figure.querySelector('.plot').readings,
  }}]))
"""


@pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")
def test_what_is_drawn_marks_the_crossover_queues_doubts_and_the_objective(
    comparison: Comparison, page: str, tmp_path: Path
) -> None:
    (seen,), console = looked(page, tmp_path, MARKS)
    assert console == []
    assert list(seen) == [kind + metric for kind, metric in CHARTS]
    over_load = {name: marks for name, marks in seen.items() if name != "pareto"}
    assert all("1 | 2? | 4 | 8 | 16 | 32" in marks["text"] for marks in over_load.values()), "the ticks are the loads"
    assert all(
        "requests queue" in marks["text"] and "requests at a time" in marks["text"] for marks in over_load.values()
    )
    (place,) = comparison.curve[0].crossovers
    assert f"crossover {rounded(place.load)}" in seen["gain"]["text"]
    assert seen["gain"]["bands"] == 2, "the crossover's interval and the queue"
    assert seen["gain"]["hollow"] == seen["lengths"]["hollow"] == 1 and seen["pareto"]["hollow"] == 2
    assert seen["pareto"]["shapes"] == 2, "arms are told apart without colour"
    assert "SLO 200 ms" in seen["latencyttft"]["text"] or max_of(seen["latencyttft"]["readings"]) < 100
    assert "SLO 21 ms" in seen["latencytpot"]["text"]
    assert "70% asked for" in seen["goodgood_share"]["text"]
    for name, marks in seen.items():
        assert len(marks["readings"]) >= 6, name
    queueing = [text for text in seen["pareto"]["readings"] if "requests queue" in text]
    assert len(queueing) == 2 and all("at 32" in text for text in queueing)
    assert sum("doubtful" in text for text in seen["pareto"]["readings"]) == 2


def max_of(readings: list[str]) -> float:
    """The largest of the milliseconds that are read out."""
    return max(float(value) for text in readings for value in re.findall(r"([\d.]+) ms", text))


@pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")
def test_levels_that_are_rates_have_an_axis_of_requests_a_second(tmp_path: Path) -> None:
    page = render_html(at_loads((0.5, 1, 4), open_loop=True))
    (seen,), console = looked(page, tmp_path, MARKS, width=390)
    assert console == []
    for marks in seen.values():
        assert "0.5 | 1 | 4" in marks["text"] and "requests a second" in marks["text"]
    assert "at 0.5 requests a second" in seen["gain"]["readings"][0] and "pareto" not in seen
