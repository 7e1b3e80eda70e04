"""Several files of prompts on one command line."""

from pathlib import Path

import pytest
from specdecode.benchmark.adhoc import BadRequest, cases_of


def test_a_third_file_of_the_same_name_takes_no_other_ones_place(tmp_path: Path) -> None:
    files = [tmp_path / folder / "t.jsonl" for folder in ("a", "b", "c")]
    for file in files:
        file.parent.mkdir()
        file.write_text('{"prompt": "?"}\n')
    assert [case.name for case in cases_of(named=(), prompts=(), files=files[:2])] == ["prompts", "t-prompts"]
    with pytest.raises(BadRequest, match="t-prompts already"):
        cases_of(named=(), prompts=(), files=files)
