"""The page on a telephone."""

from pathlib import Path
from typing import Any

import pytest
from specdecode.analysis import compare
from specdecode.analysis.report import render_html
from specdecode.analysis.texts.wording import first_sentence
from specdecode.experiment.files import load, load_engine
from specdecode.experiment.told import Published

from tests.specdecode.analysis.browser import Page, chromium, visit
from tests.specdecode.analysis.report.test_report_browser import BOTTOM
from tests.specdecode.analysis.report.test_swept import records
from tests.specdecode.analysis.simulate import context

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


def test_a_telephone_shows_what_differs_in_names_the_first_doubt_and_the_verdicts_on_published_figures(
    tmp_path: Path,
) -> None:
    tested, caveat = load("rehearsal-tuning"), load_engine("rehearsal-cpu").caveat
    told = {"by": "AWS", "base": "base-seqs4", "variant": "sd-seqs4", "source": "a tutorial",
            "figures": {"repeat-line-out32": {"request_output_throughput": {"mean": (1.0, 2.0)}}}}  # fmt: skip
    found = compare(
        experiment=tested.model_copy(update={"published": (Published.model_validate(told),)}),
        records=list(records(tested)),
        context=context(notes=(caveat, *LONG)),
    )
    path = tmp_path / "report.html"
    path.write_text(render_html(found))

    async def steps(page: Page) -> dict[str, Any]:
        await page.open(path, width=390, height=844)
        return dict(await page.evaluate(ON_A_TELEPHONE.replace("BOTTOM", BOTTOM)))

    seen = visit(tmp_path / "profile", steps)
    assert seen["ends"] == ["-out32", "-out64", "-out128", "-out256"] * 2
    assert seen["doubt"] == first_sentence(caveat)
    assert seen["verdict"] == ["not reproduced"]
    assert seen["bottom"] <= 844
