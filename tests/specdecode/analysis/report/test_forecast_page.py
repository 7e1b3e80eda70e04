"""The page of a forecast in a real browser: its charts compare, and hide nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from specdecode.analysis.advice.payoff import payoff
from specdecode.analysis.report.html import render_forecast
from specdecode.experiment.files import load
from specdecode.experiment.told import Forecasted

from tests.specdecode.analysis.browser import Page, chromium, visit

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")
OVERPRINTED = """
[...document.querySelectorAll('[data-chart=forecast] svg')].flatMap(svg => {
  const boxes = [...svg.querySelectorAll('text')].filter(e => /^(n-gram|suffix|Qwen)/.test(e.textContent))
    .map(e => e.getBoundingClientRect()).sort((a, b) => a.top - b.top);
  return boxes.slice(1).map((box, i) => box.top - boxes[i].top).concat(boxes.length === 3 ? [] : [-1]);
}).filter(apart => apart < 12).length"""
AXES = """
['Structured', 'Open-ended', 'All'].map(group => new Set(
  [...document.querySelectorAll('[data-chart=theory]')].filter(e => e.textContent.startsWith(group))
    .map(e => [...e.querySelectorAll('[aria-label="y-axis tick label"] text')].map(t => t.textContent).join())
)).map(own => [...own].every(Boolean) && own.size)"""
BEYOND = "[...document.querySelectorAll('[data-chart=forecast] text')].filter(e => e.textContent == '▲').length"


def test_names_stand_apart_bands_that_leave_are_marked_and_drafts_have_one_axis(tmp_path: Path) -> None:
    tested = load("qwen3-32b-tuning")
    told = tuple(
        Forecasted(draft=draft, case=case, prompts=1, at=tuple((k, 1.0 + share * k, 0.4) for k in range(5, 16)))
        for draft, share in (("Qwen/Qwen3-1.7B", 0.3), ("n-gram", 0.1), ("suffix", 0.101))
        for case in ("repeat-line", "meaning-of-life")
    )
    path = tmp_path / "forecast.html"
    path.write_text(render_forecast(tested.title, told, payoff(tested)))

    async def steps(page: Page) -> list[Any]:
        await page.open(path, width=1440)
        quoted = "document.body.innerText.includes('`')"
        return [await page.evaluate(each) for each in (OVERPRINTED, AXES, quoted, BEYOND)]

    *found, beyond = visit(tmp_path / "profile", steps)
    assert found == [0, [1, 1, 1], False] and beyond > 0
