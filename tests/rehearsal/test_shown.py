"""What a rehearsal shows on a terminal, and what end-to-end cases write into the page of faults."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.spinner import Spinner
from rich.text import Text

from rehearsal.console import Progress
from tests.end_to_end import page
from tests.end_to_end.page import part, replaced, write_beside, write_faults

BEGIN, END = "<!-- overhead: written by tests/end_to_end/faults -->", "<!-- end of overhead -->"


def test_what_people_wrote_around_a_part_stays() -> None:
    new = replaced(f"a\n{BEGIN}\nold\n{END}\nb\n", "overhead", ["new"])
    assert (new[:2], new[-3:], part(new, "overhead")) == ("a\n", "\nb\n", ["", "", "new", ""])
    with pytest.raises(AssertionError, match="has no part overhead"):
        replaced("a\n", "overhead", [])


def test_a_row_keeps_its_place_and_what_became_of_a_run_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "faults.md")
    table = tmp_path / "faults.csv"
    table.write_text("fault,where,execution,cause,took,beside\n")
    write_faults([("a", "Serve", "FAILED", "x, y", "3 s"), ("b", "Plan", "SUCCEEDED", "-", "4 s")])
    write_beside({"a": "undisturbed", "never heard of": "ends too"})
    write_faults([("c", "Plan", "FAILED", "-", "1 s"), ("a", "Serve", "FAILED", "z", "5 s")])
    assert table.read_text().splitlines() == [
        "fault,where,execution,cause,took,beside",
        "a,Serve,FAILED,z,5 s,undisturbed",
        "b,Plan,SUCCEEDED,-,4 s,-",
        "c,Plan,FAILED,-,1 s,-",
    ]


@pytest.mark.parametrize("width", [40, 80])
def test_a_running_step_stays_on_one_line(width: int) -> None:
    progress = Progress(console=Console(file=io.StringIO(), force_terminal=True, width=width))
    with progress.step("StageModels") as step:
        step.say("specdecode/pair-target: started " + "r1467886b-stage-specdecode-pair-target; " * 4)
        assert step._status is not None and isinstance(step._status.renderable, Spinner)
        shown = step._status.renderable.text
        assert isinstance(shown, Text) and shown.plain.startswith("StageModels  specdecode/")
        assert shown.cell_len <= width - 3 and shown.plain.endswith("…")
