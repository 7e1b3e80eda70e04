"""Quantities."""

from decimal import Decimal

import pytest

from rehearsal.kubernetes import quantity
from rehearsal.kubernetes.karpenter import names


@pytest.mark.parametrize(
    ("text", "amount"),
    {"500m": "0.5", "1": "1", "1Gi": 2**30, "1.5G": "1.5e9", "1e3": "1000", "100u": "1e-4", 2: 2, "Gi": 0}.items(),
)
def test_parse(text: str | int, amount: str | int) -> None:
    assert quantity.parse(text) == Decimal(amount)


def test_durations() -> None:
    assert names.seconds("1h30m") == 5400 and names.seconds("10m") == 600 and names.seconds("Never") == float("inf")
