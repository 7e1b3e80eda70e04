"""Counts in servers.json have a bound: whoever adds rounds up gets whole numbers."""

from typing import Any

import pytest
from pydantic import ValidationError
from specdecode.records.servers import MOST, EngineCounters


@pytest.mark.parametrize("field", ["drafts", "draft_tokens", "accepted_tokens", "accepted_per_position"])
@pytest.mark.parametrize(("count", "is_read"), [(0, True), (MOST, True), (MOST + 1, False), (-1, False)])
def test_a_count_is_read_within_its_bound_alone(field: str, count: int, is_read: bool) -> None:
    found: dict[str, Any] = {"variant": "sd", "case": "c", "drafts": 1, "draft_tokens": 1, "accepted_tokens": 1}
    found[field] = [1, count] if field == "accepted_per_position" else count
    if is_read:
        assert EngineCounters.model_validate(found).model_dump(mode="json")[field] == found[field]
    else:
        with pytest.raises(ValidationError, match=field):
            EngineCounters.model_validate(found)
