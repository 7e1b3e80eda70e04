"""Hostile text in every form of the report: it is shown, and it is nothing but text.

Each form is parsed as its reader would, and must have the shape that it has with harmless words in the same places.
"""

import csv
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from specdecode.analysis import Comparison
from specdecode.analysis.report import render_csv, render_html, render_markdown, render_terminal, render_trend
from specdecode.analysis.several_runs.difference import difference, left_out_text, trend
from specdecode.cli import report_view

from tests.specdecode.analysis.browser import Page, chromium, visit
from tests.untrusted.hostile import BENIGN, EVERYTHING, FORMULAS, foreign, measured

Made = Callable[[str], Comparison]
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
VOID = {"meta", "link", "br", "img", "input", "hr"}

both = pytest.mark.parametrize("made", [measured, foreign])


LONG = ("class", "long")
"""Of a row's head with many characters, whatever they are."""


class Skeleton(HTMLParser):
    """Elements with their attributes; values only of those that are no text for people."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kept = [each for each in attrs if each != LONG]
        self.found.append(
            (tag, tuple((name, None if name in ("title", "aria-label") else value) for name, value in kept))
        )

    def handle_comment(self, data: str) -> None:
        self.found.append(("<!--", ()))


def elements(page: str) -> list[Any]:
    parser = Skeleton()
    parser.feed(page)
    parser.close()
    return parser.found


@both
def test_no_element_or_attribute_of_the_page_comes_from_text(made: Made) -> None:
    hostile = render_html(made(EVERYTHING))
    assert elements(hostile) == elements(render_html(made(BENIGN)))
    assert "&lt;script&gt;window.pwned=1" in hostile, "it is shown, though"
    assert not STEERING.search(hostile)


def test_nor_in_the_trend_over_runs() -> None:
    hostile, benign = (
        render_trend(trend([made(text) for made in (measured, foreign)])) for text in (EVERYTHING, BENIGN)
    )
    assert elements(hostile) == elements(benign)
    assert not STEERING.search(hostile)


def test_the_page_allows_no_script_but_its_own() -> None:
    page = render_html(measured(EVERYTHING))
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', page)
    assert policy
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].replace("&#39;", "'").split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    assert all(source.startswith("'sha256-") for source in rules["script-src"].split())
    assert page.index("Content-Security-Policy") < page.index("<title>"), "before anything untrusted"


@pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")
def test_a_browser_finds_only_our_elements_and_runs_only_our_scripts(tmp_path: Path) -> None:
    shape = """JSON.stringify([...document.querySelectorAll('*')].filter(e => !e.closest('svg')).map(e => [
      e.localName,
      [...e.attributes].filter(a => a.value !== 'long')
        .map(a => ['title', 'aria-label'].includes(a.name) ? a.name : a.name + '=' + a.value)]))"""
    foreign_in_charts = "[...document.querySelectorAll('svg script, svg a, svg image, svg foreignObject')].length"

    async def look(page: Page) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for made in (measured, foreign):
            for text in (BENIGN, EVERYTHING):
                path = tmp_path / f"{made.__name__}-{len(text)}.html"
                path.write_text(render_html(made(text)), encoding="utf-8")
                await page.open(path, width=1200)
                found[made.__name__, text] = await page.evaluate(shape)
                found[made.__name__, text, "window"] = await page.evaluate("String(window.pwned)")
                found[made.__name__, text, "charts"] = await page.evaluate(foreign_in_charts)
        return {**found, "console": page.console, "requests": page.requests}

    found = visit(tmp_path / "profile", look)
    for made in ("measured", "foreign"):
        assert found[made, EVERYTHING] == found[made, BENIGN]
        assert found[made, EVERYTHING, "window"] == "undefined"
        assert found[made, EVERYTHING, "charts"] == 0
    assert found["console"] == []
    assert [url for url in found["requests"] if not url.startswith(("file://", "data:"))] == []


def shape(tokens: list[Token]) -> list[str]:
    """Types of all tokens, without text and what merely joins it."""
    found: list[str] = []
    for token in tokens:
        if token.type not in ("text", "text_special"):
            found.append(f"{token.type} {token.tag}")
        found += shape(token.children or [])
    return found


def parsed(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)


@both
def test_markdown_has_no_link_image_markup_or_cell_of_the_texts(made: Made) -> None:
    hostile = render_markdown(made(EVERYTHING))
    assert shape(parsed(hostile)) == shape(parsed(render_markdown(made(BENIGN))))
    assert not STEERING.search(hostile)
    assert not re.search(r"(?<!\\)[<@]", hostile)
    assert "https://" not in hostile, "GitHub makes links of bare addresses"


@both
def test_csv_has_the_same_cells_and_no_formula(made: Made) -> None:
    hostile, benign = (list(csv.reader(io.StringIO(render_csv(made(text))))) for text in (EVERYTHING, BENIGN))
    assert [len(row) for row in hostile] == [len(row) for row in benign]
    for cell in (cell for row in hostile for cell in row):
        assert not STEERING.search(cell)
        assert "\t" not in cell
        if cell.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠")):
            float(cell)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_cell_that_begins_like_a_formula_is_text(text: str) -> None:
    comparison = measured(BENIGN)
    metrics = tuple(metric.model_copy(update={"formula": text}) for metric in comparison.metrics)
    rows = list(csv.DictReader(io.StringIO(render_csv(comparison.model_copy(update={"metrics": metrics})))))
    cells = {row["formula"] for row in rows if row["kind"] == "metric"}
    assert len(cells) == 1
    assert cells.pop().startswith(("'", "\\"))


@both
@pytest.mark.parametrize("colour", [False, True])
def test_the_terminal_gets_no_control_but_our_colours(made: Made, colour: bool) -> None:
    text = render_terminal(made(EVERYTHING), colour=colour)
    assert not STEERING.search(re.sub(r"\x1b\[[0-9;]*m", "", text) if colour else text)
    assert "[bold red]markup[/bold red]" in text.replace("\n", " ").replace("  ", " ")


def test_differences_and_trends_get_none_either() -> None:
    ours, theirs = measured(EVERYTHING), foreign(EVERYTHING)
    found = difference([ours, theirs.model_copy(update={"run_id": "theirs"})])
    for text in (
        report_view.difference_text(found),
        left_out_text(found.model_copy(update={"left_out": (EVERYTHING,)})),
        report_view.runs_text(report_view.list_of_runs(trend([ours, theirs]), [], all_of_them=True)),
    ):
        assert not STEERING.search(text)


def test_json_keeps_the_text_and_steers_no_terminal() -> None:
    comparison = measured(EVERYTHING)
    document = comparison.json_document()
    assert not STEERING.search(document)
    assert json.loads(document) == comparison.model_dump(mode="json")
    assert json.loads(document)["title"] == EVERYTHING
