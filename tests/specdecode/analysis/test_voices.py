"""No two outputs of a report contradict each other: generated comparisons, read by a checker of its own (voices.py)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.specdecode.analysis.voices import contradictions, generated

FEW, PARTS = 24, 4
MANY = int(os.environ.get("VOICES", "10000"))


def wrong(seeds: range, folder: Path) -> dict[int, list[str]]:
    """Seed -> contradictions; and -1 if no comparison is faster over all prompts and pays on no prompt type."""
    made = {seed: generated(seed) for seed in seeds}
    found = {seed: told for seed, each in made.items() if (told := contradictions(*each, folder / str(seed)))}
    return found if any(truth.together for _, truth in made.values()) else found | {-1: ["the state is not reached"]}


def test_no_output_contradicts_another(tmp_path: Path) -> None:
    assert wrong(range(FEW), tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_output_of_ten_thousand_contradicts_another(tmp_path: Path, part: int) -> None:
    assert wrong(range(part, MANY, PARTS), tmp_path) == {}
