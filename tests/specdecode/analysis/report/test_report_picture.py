"""The README's pictures are made from finished runs by one command."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.report import render_html

from tests.specdecode.analysis.browser import chromium
from tests.specdecode.analysis.report_picture import IMAGES, STAMP, as_page, draw, drawn_by
from tests.specdecode.analysis.simulate import context, experiment, run
from tests.specdecode.analysis.simulate_load import Server, loads
from tests.specdecode.analysis.simulate_load import run as run_loads


def pictures(comparison: Comparison, folder: Path) -> dict[str, tuple[int, int]]:
    """Name -> width and height."""
    for name in ("images", "samples"):
        (folder / name).mkdir()
    (folder / "report.html").write_text(render_html(comparison), encoding="utf-8")
    made = [path for path in draw(folder, docs=folder) if path.suffix == ".png"]
    return {path.name: struct.unpack(">II", path.read_bytes()[16:24]) for path in made}


@pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")
def test_of_several_loads_it_is_the_curve_without_its_table(tmp_path: Path) -> None:
    tested = loads((1, 4, 16))
    arm = Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)
    records = run_loads(tested, {"base": Server(), "sd": arm}, seed=1)
    found = pictures(compare(experiment=tested, records=records, context=context()), tmp_path)
    ((name, (width, height)),) = found.items()
    assert (name, width) == ("load.png", 1200) and 600 < height < 1200


@pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")
def test_of_one_load_it_is_the_answer_and_what_follows(tmp_path: Path) -> None:
    tested = experiment()
    found = pictures(compare(experiment=tested, records=run(tested), context=context()), tmp_path)
    assert {name: width for name, (width, _) in found.items()} == {"report.png": 1200, "report-questions.png": 1200}
    assert all(300 < height < 1200 for _, height in found.values())
    assert "<h1" in (tmp_path / "samples" / "rehearsal.html").read_text()


def test_the_pictures_in_the_documentation_are_of_what_draws_now() -> None:
    stamp = json.loads((IMAGES / STAMP).read_text())
    there = {"rehearsal.html", *(path.name for path in IMAGES.glob("*.png"))}
    old = {name for name in there | stamp.keys() if stamp.get(name) != drawn_by(name)}
    assert not old, f"CONTRIBUTING.md says what draws {old} again"
    assert there == stamp.keys()


def test_a_terminals_colours_are_the_pictures() -> None:
    assert as_page("a \x1b[32mpays\x1b[0m <b>\n").endswith('<pre>a <span class="c32">pays</span> &lt;b&gt;</pre>')
