"""The parts of docs/reference/faults.md that end-to-end cases write."""

from pathlib import Path

import pytest

from tests.end_to_end import page
from tests.end_to_end.page import part, replaced, write_beside, write_faults

BEGIN, END = "<!-- faults: written by tests/end_to_end/faults -->", "<!-- end of faults -->"


def test_what_people_wrote_around_a_part_stays() -> None:
    new = replaced(f"a\n{BEGIN}\nold\n{END}\nb\n", "faults", ["new"])
    assert (new[:2], new[-3:], part(new, "faults")) == ("a\n", "\nb\n", ["", "", "new", ""])
    with pytest.raises(AssertionError, match="has no part overhead"):
        replaced(new, "overhead", [])


def test_a_row_keeps_its_place_and_what_became_of_a_run_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"{BEGIN}\n{END}\n")
    monkeypatch.setattr(page, "PAGE", path)
    write_faults([("a", "Serve", "FAILED", "x | y", "3 s"), ("b", "Plan", "SUCCEEDED", "-", "4 s")])
    write_beside({"a": "undisturbed", "never heard of": "ends too"})
    write_faults([("c", "Plan", "FAILED", "-", "1 s"), ("a", "Serve", "FAILED", "z", "5 s")])
    assert [line for line in part(path.read_text(), "faults") if line][2:] == [
        "| a | Serve | FAILED | z | 5 s | undisturbed |",
        "| b | Plan | SUCCEEDED | - | 4 s | - |",
        "| c | Plan | FAILED | - | 1 s | - |",
    ]
