"""The report in a real browser: no error, no request, charts drawn, readable, accessible."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from specdecode.analysis.advice.payoff import payoff
from specdecode.analysis.report import render_html, render_trend
from specdecode.analysis.report.html import render_forecast
from specdecode.analysis.results.numbers import compact
from specdecode.analysis.results.run_context import Accuracy
from specdecode.analysis.several_runs.difference import trend
from specdecode.experiment.files import load
from specdecode.experiment.model import Sweep
from specdecode.experiment.told import Forecasted

from tests.specdecode.analysis.browser import Page, chromium, looked, visit
from tests.specdecode.analysis.simulate import context, experiment, of_types, simulated
from tests.specdecode.analysis.simulate_load import at_loads
from tests.specdecode.analysis.simulate_work import by_work

AXE = Path(__file__).resolve().parents[4] / "node_modules" / "axe-core" / "axe.min.js"

UNTOLD = """
[...document.querySelectorAll('.tile, .row .gain, td.r')]
  .filter(e => /[0-9]/.test(e.textContent) && !e.closest('[title]') && !e.querySelector('.num[title]:not([title=""])'))
  .map(e => e.closest('section').getAttribute('aria-labelledby') + ': ' + e.outerHTML.slice(0, 120))
"""
"""Figures that tell nothing when hovered."""

WIDE = """
[...document.querySelectorAll('table, pre')]
  .filter(e => e.getBoundingClientRect().right > document.querySelector('main').getBoundingClientRect().right + 1)
  .map(e => e.closest('section').getAttribute('aria-labelledby') + ': ' + e.outerHTML.slice(0, 90))
"""
"""What reaches beyond the text's right edge."""

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")


@pytest.fixture(
    scope="module", params=[Sweep.GRID, Sweep.ADAPTIVE, None, "work"], ids=["grid", "adaptive", "six loads", "by work"]
)
def any_page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report"), request.param)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report"), Sweep.GRID)


def written(folder: Path, sweep: Sweep | str | int | None) -> Path:
    """A report of three arms at one load, without `sweep` of two at six loads; `work`: by kind of work, with turns; a
    number: of two over so many prompt types.
    """
    if isinstance(sweep, int):
        found = of_types(sweep)
    elif sweep == "work":
        found = by_work(concurrency=(1, 8), talks=True)
    elif sweep is None:
        found = at_loads()
    else:
        tested = experiment(ks=(3, 7), rounds=2).model_copy(update={"sweep": sweep})
        score = Accuracy(variant="sd-k7", task="gsm8k", metric="exact_match", value=0.72, stderr=0.064, samples=50)
        found = simulated(tested=tested, around=context(accuracy=(score,)))
    path = folder / "report.html"
    path.write_text(render_html(found))
    return path


OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""Not of `innerWidth`: on a telephone that grows with what is too wide."""
CUT = """(() => {
  const interval = document.createElement('span')
  interval.textContent = '(95% CI 2.01–2.73 over 5 types, 2.11× to 2.56×; a further type probably 1.76× to 3.11×)'
  document.querySelector('h1').append(interval)
  const wide = document.documentElement.clientWidth + 1
  return [...document.querySelectorAll('body *')]
    .filter(e => !e.closest('.scroll, svg') && e.getBoundingClientRect().right > wide)
    .map(e => e.outerHTML.slice(0, 200))
})()"""
"""With the longest interval that a headline can have. The page hides what is wider than it."""


async def look(page: Page, path: Path, *, width: int, dark: bool = False) -> dict[str, Any]:
    await page.open(path, width=width, dark=dark)
    await page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    await page.settle()
    seen = {
        "charts": await page.evaluate("document.querySelectorAll('figure.chart').length"),
        "drawn": await page.evaluate("document.querySelectorAll('figure.chart .plot svg').length"),
        "overflow": await page.evaluate(OVERFLOW),
        "small": await page.evaluate(
            "[...document.querySelectorAll('main *')].filter(e => e.children.length === 0 && e.textContent.trim() "
            "&& !e.closest('svg, sup') && parseFloat(getComputedStyle(e).fontSize) < 12).map(e => e.outerHTML)"
        ),
        "untold": await page.evaluate(UNTOLD),
        "cut": await page.evaluate(CUT),
    }
    if AXE.exists():
        await page.evaluate(AXE.read_text() + ";0")
        violations = "r.violations.map(v => [v.id, v.impact, v.nodes.map(n => n.html).slice(0, 3)])"
        results = await page.evaluate(f"axe.run(document).then(r => {violations})")
        seen["axe"] = [item for item in results if item[1] in {"serious", "critical"}]
    return {**seen, "console": page.console, "requests": page.requests}


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1440, False), (1440, True)])
def test_the_report_opens_without_error_request_or_overflow(
    any_page: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    seen = visit(tmp_path / "profile", lambda page: look(page, any_page, width=width, dark=dark))
    assert seen["console"] == []
    assert [url for url in seen["requests"] if not url.startswith(("file://", "data:"))] == []
    assert seen["charts"] >= 6
    assert seen["drawn"] == seen["charts"]
    assert seen["overflow"] <= 0, "the page scrolls sideways"
    assert seen["cut"] == [], "text beyond the right edge, where it cannot be scrolled to"
    assert seen["small"] == []
    assert seen["untold"] == [], "figures without unit and formula on hover"
    assert seen.get("axe", []) == []


def test_the_trend_over_runs_opens_as_well(tmp_path: Path) -> None:
    runs = [simulated(seed=day, around=context(started_at=f"2026-11-{day}T12:00:00Z")) for day in (11, 12, 13)]
    path = tmp_path / "trend.html"
    points = trend(runs)
    path.write_text(render_trend(points))
    over = points[-1].over_runs
    assert over and all(found.n == 3 and compact(found) in path.read_text() for found in over.values())
    seen = visit(tmp_path / "profile", lambda page: look(page, path, width=390))
    assert seen["console"] == []
    assert (seen["charts"], seen["drawn"]) == (3, 3)
    assert seen["overflow"] <= 0
    assert seen.get("axe", []) == []


def test_the_trend_of_a_single_run_is_of_one_run_on_its_day(tmp_path: Path) -> None:
    page = render_trend(trend([simulated(around=context(started_at="2026-11-11T12:00:00Z"))]))
    texts = "[...document.querySelector('[data-chart=trend] svg').querySelectorAll('text')].map(e => e.textContent)"
    (heading, found), _ = looked(page, tmp_path, "document.querySelector('h1').textContent", texts, width=390)
    assert heading.startswith("1 run. The last: ")
    assert [text for text in found if re.search(r"\d{4}|T\d\d:|\d\d:\d\d", text)] == ["2026-11-11"]


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1440, False), (1440, True)])
def test_the_forecast_opens_as_well(width: int, dark: bool, tmp_path: Path) -> None:
    """Of a draft of two prompt types: the fans, the tokens per step, their table."""
    tested = load("qwen3-32b-tuning")
    at = tuple((k, 1.0 + k / 5, 0.1) for k in range(5, 16))
    told = tuple(
        Forecasted(draft="Qwen/Qwen3-1.7B", case=case, prompts=8, at=at) for case in ("repeat-line", "meaning-of-life")
    )
    path = tmp_path / "forecast.html"
    path.write_text(render_forecast(tested.title, told, payoff(tested.model_copy(update={"forecast": told}))))
    seen = visit(tmp_path / "profile", lambda page: look(page, path, width=width, dark=dark))
    assert seen["console"] == []
    assert seen["drawn"] == seen["charts"] >= 4
    assert (seen["overflow"] <= 0, seen["small"], seen.get("axe", [])) == (True, [], [])


def test_accessibility_is_checked(page_file: Path, tmp_path: Path) -> None:
    """The check that the other tests make finds what is put in: an image without a text, pale letters."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: `npm ci` brings it")
    broken = tmp_path / "report.html"
    bad = '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><p style="color:#ddd;background:#fff">pale</p></main>'
    broken.write_text(page_file.read_text().replace("</main>", bad))
    seen = visit(tmp_path / "profile", lambda page: look(page, broken, width=1200))
    assert {"image-alt", "color-contrast"} <= {rule for rule, *_ in seen["axe"]}


SIZES = {(1440, 900): 6.0, (390, 844): None}
"""First screen -> most screens of the whole page, folded."""
BOTTOM = "Math.max(...[...document.querySelectorAll('.answer > *')].map(e => e.getBoundingClientRect().bottom))"
LINES = """[...document.querySelectorAll('.but li')].map(
  e => Math.round(e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight)))"""
WORDS = "document.body.innerText.split(/\\s+/).filter(word => /[A-Za-z0-9]/.test(word)).length"


@pytest.mark.parametrize("any_page", [Sweep.GRID, Sweep.ADAPTIVE, None, "work", 9, 24], indirect=True)
def test_the_first_screen_answers_and_the_page_is_short(any_page: Path, tmp_path: Path) -> None:
    """At both sizes: sentence, picture, tiles and doubts without scrolling; then 2,500 words, 6 screens, 8 pages."""

    async def steps(page: Page) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for (width, height), most in SIZES.items():
            await page.open(any_page, width=width, height=height)
            assert await page.evaluate(BOTTOM) <= height, (width, await page.evaluate(BOTTOM))
            screens = await page.evaluate("document.documentElement.scrollHeight") / height
            assert most is None or screens <= most, screens
            found[f"lines at {width}"] = await page.evaluate(LINES)
        found["words"] = await page.evaluate(WORDS)
        found["hash"] = await page.evaluate("/[0-9a-f]{64}/.test(document.body.innerText)")
        paper = await page.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        found["pages"] = len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(paper["data"])))
        return found

    seen = visit(tmp_path / "profile", steps)
    assert seen["words"] <= 2500 and not seen["hash"]
    assert 0 < seen["pages"] <= 8
    assert len(seen["lines at 1440"]) <= 3 and set(seen["lines at 1440"]) <= {1}
    assert set(seen["lines at 390"][:1]) <= {1, 2, 3} and set(seen["lines at 390"][1:]) <= {1, 2}


def test_what_is_folded_is_found_by_a_link_and_left_out_of_print(page_file: Path, tmp_path: Path) -> None:
    shown = "document.getElementById('metrics').closest('section').querySelector('table').checkVisibility()"

    async def steps(page: Page) -> tuple[bool, bool, bool]:
        await page.open(page_file, width=1440)
        before = await page.evaluate(shown)
        await page.call("Emulation.setEmulatedMedia", media="print")
        printed = await page.evaluate("document.getElementById('metrics').checkVisibility()")
        await page.call("Emulation.setEmulatedMedia", media="screen")
        await page.evaluate("document.querySelector('.toc a[href=\"#metrics\"]').click()")
        await page.settle()
        return before, printed, await page.evaluate(shown)

    assert visit(tmp_path / "profile", steps) == (False, False, True)


def test_the_report_prints_light_and_whole(any_page: Path, tmp_path: Path) -> None:
    """On A4 from a dark screen: dark letters on white, nothing cut off at the side."""

    async def steps(page: Page) -> dict[str, Any]:
        await page.open(any_page, width=1200, dark=True)
        await page.resize(718)
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        await page.call("Emulation.setEmulatedMedia", media="print", features=features)
        await page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        await page.settle()
        colours = "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))"
        scrolls = "[...document.querySelectorAll('.scroll')]"
        cut = f"{scrolls}.filter(e => getComputedStyle(e).overflowX !== 'visible').length"
        return {
            "colours": await page.evaluate(colours),
            "cut": await page.evaluate(cut),
            "wide": await page.evaluate(WIDE),
            "overflow": await page.evaluate(OVERFLOW),
        }

    seen = visit(tmp_path / "profile", steps)
    assert seen["wide"] == [], "tables with columns beyond the paper's edge"
    assert seen["colours"] == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    assert seen["cut"] == 0
    assert seen["overflow"] <= 0


def test_charts_are_walked_with_the_keyboard_and_read_out(any_page: Path, tmp_path: Path) -> None:
    """Tab reaches every chart, its text says what it shows, and the arrow keys go through its values."""

    async def steps(page: Page) -> dict[str, Any]:
        await page.open(any_page, width=1200)
        figures = "[...document.querySelectorAll('figure.chart .plot')]"
        await page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        await page.settle()
        await page.evaluate("document.querySelector('[data-chart=share] .plot').focus()")
        read = []
        for key in ("ArrowRight", "ArrowRight", "End", "ArrowRight", "Home"):
            await page.call("Input.dispatchKeyEvent", type="keyDown", key=key)
            read.append(
                await page.evaluate("document.activeElement.closest('figure').querySelector('output').textContent")
            )
        return {
            "unreachable": await page.evaluate(
                f"{figures}.filter(e => e.tabIndex !== 0 || !/[0-9]/.test(e.ariaLabel)).length"
            ),
            "unread": await page.evaluate(f"{figures}.filter(e => !e.readings?.length).map(e => e.ariaLabel)"),
            "read": read,
        }

    seen = visit(tmp_path / "profile", steps)
    assert seen["unreachable"] == 0
    assert seen["unread"] == []
    first, second, last, still, home = seen["read"]
    assert re.fullmatch(r"Base: \d+% within [\d.]+ ms \(1 of \d+\)", first), first
    assert "(2 of " in second and last == still and home == first
    number, count = re.findall(r"\((\d+) of (\d+)\)", last)[0]
    assert number == count


def test_the_policy_stops_a_script_and_a_request(page_file: Path, tmp_path: Path) -> None:
    """The same page with a foreign script put in: the browser refuses to run it."""
    broken = page_file.read_text().replace("</main>", "<script>window.bad = 1</script></main>")
    asked = "fetch('http://127.0.0.1:9/').catch(() => 0).then(() => 1)", "window.bad"
    (_, bad), console = looked(broken, tmp_path, *asked)
    assert bad is None
    assert sum("Content Security Policy" in text for text in console) >= 2
