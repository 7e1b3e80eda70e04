"""The README's pictures are made from finished runs by one command."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.report import render_html

from tests.specdecode.analysis.browser import chromium
from tests.specdecode.analysis.report_picture import draw
from tests.specdecode.analysis.simulate import context, experiment, run
from tests.specdecode.analysis.simulate_load import Server, loads
from tests.specdecode.analysis.simulate_load import run as run_loads

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium: `apt-get install chromium` to run this test")


def picture(comparison: Comparison, folder: Path) -> tuple[str, int, int]:
    """Name, width and height."""
    (folder / "report.html").write_text(render_html(comparison), encoding="utf-8")
    made = draw(folder, images=folder)
    width, height = struct.unpack(">II", made.read_bytes()[16:24])
    return made.name, width, height


def test_of_several_loads_it_is_the_curve_without_its_table(tmp_path: Path) -> None:
    tested = loads((1, 4, 16))
    arm = Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)
    records = run_loads(tested, {"base": Server(), "sd": arm}, seed=1)
    name, width, height = picture(compare(experiment=tested, records=records, context=context()), tmp_path)
    assert (name, width) == ("load.png", 1200) and 700 < height < 1200


def test_of_one_load_it_is_the_answer_down_to_the_tiles(tmp_path: Path) -> None:
    tested = experiment()
    comparison = compare(experiment=tested, records=run(tested), context=context())
    name, width, height = picture(comparison, tmp_path)
    assert (name, width) == ("report.png", 1200) and 500 < height < 1200
