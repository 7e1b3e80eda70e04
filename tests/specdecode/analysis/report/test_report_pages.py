"""Pages in a real browser: on a telephone, and the charts of a forecast, which compare and hide nothing."""

from pathlib import Path

import pytest
from specdecode.analysis.advice.payoff import payoff
from specdecode.analysis.report import render_html
from specdecode.analysis.report.html import render_forecast
from specdecode.analysis.texts.wording import first_sentence
from specdecode.experiment.files import load, load_engine
from specdecode.experiment.told import Forecasted, Published

from tests.specdecode.analysis.browser import chromium, looked
from tests.specdecode.analysis.report.test_report_browser import BOTTOM
from tests.specdecode.analysis.report.test_swept import records
from tests.specdecode.analysis.simulate import context, simulated

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")
LONG = tuple(f"base-seqs{n} was 101.9% faster in round 1 on group 8-0 than in round 0 on group 8-0." for n in (1, 2))
ON_A_TELEPHONE = """(() => {
  const right = e => e.getBoundingClientRect().right
  const doubt = document.querySelector('.but li')
  return {
    ends: [...document.querySelectorAll('.row .name')].map(e => [...e.querySelectorAll('span')].at(-1))
      .filter(e => e.scrollWidth <= e.clientWidth && right(e) <= right(e.parentElement)).map(e => e.textContent),
    doubt: doubt.scrollHeight <= doubt.clientHeight && doubt.textContent,
    verdict: [...document.querySelectorAll('#published ~ .scroll tbody td')]
      .filter(e => right(e) <= innerWidth).map(e => e.textContent),
    bottom: BOTTOM,
  }
})()"""
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
SEEN = (OVERPRINTED, AXES, "document.body.innerText.includes('`')", BEYOND)


def test_a_telephone_shows_what_differs_in_names_the_first_doubt_and_the_verdicts_on_published_figures(
    tmp_path: Path,
) -> None:
    tested, caveat = load("rehearsal-tuning"), load_engine("rehearsal-cpu").caveat
    told = {"by": "AWS", "base": "base-seqs4", "variant": "sd-seqs4", "source": "a tutorial",
            "figures": {"repeat-line-out32": {"request_output_throughput": {"mean": (1.0, 2.0)}}}}  # fmt: skip
    beside = tested.model_copy(update={"published": (Published.model_validate(told),)})
    found = simulated(records(tested), tested=beside, around=context(notes=(caveat, *LONG)))
    script = ON_A_TELEPHONE.replace("BOTTOM", BOTTOM)
    (seen,), _ = looked(render_html(found), tmp_path, script, width=390, height=844)
    assert seen["ends"] == ["-out32", "-out64", "-out128", "-out256"] * 2
    assert seen["doubt"] == first_sentence(caveat)
    assert seen["verdict"] == ["not reproduced"]
    assert seen["bottom"] <= 844


def test_names_stand_apart_bands_that_leave_are_marked_and_drafts_have_one_axis(tmp_path: Path) -> None:
    tested = load("qwen3-32b-tuning")
    told = tuple(
        Forecasted(draft=draft, case=case, prompts=1, at=tuple((k, 1.0 + share * k, 0.4) for k in range(5, 16)))
        for draft, share in (("Qwen/Qwen3-1.7B", 0.3), ("n-gram", 0.1), ("suffix", 0.101))
        for case in ("repeat-line", "meaning-of-life")
    )
    (*found, beyond), _ = looked(render_forecast(tested.title, told, payoff(tested)), tmp_path, *SEEN)
    assert found == [0, [1, 1, 1], False] and beyond > 0
