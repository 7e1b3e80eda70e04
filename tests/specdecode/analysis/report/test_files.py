"""Raw files that a report names."""

import pytest
from pydantic import TypeAdapter, ValidationError
from specdecode.analysis.results.comparison import RawFile
from specdecode.records import raw_file


def test_the_files_of_all_clients_can_be_named_and_no_other_path() -> None:
    of_a_file = TypeAdapter(RawFile)
    for client in (0, 1, 15):
        assert of_a_file.validate_python(raw_file("base", "repeat-line", client))
    for wrong in ("raw/base/a@b.jsonl", "raw/@x/a.jsonl", "../a.jsonl", "raw/base/a@.jsonl"):
        with pytest.raises(ValidationError):
            of_a_file.validate_python(wrong)
