"""What a deployment costs at rest follows from its settings."""

from datetime import date
from itertools import pairwise

import pytest
from specdecode.experiment.prices import STANDARD_SUPPORT_ENDS

from constructs_lib.settings.costs import resting_cost
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.versions import ADDONS


def test_each_nat_gateway_is_paid_for_and_there_is_one_a_zone_at_most():
    zones = len(Settings().zones)
    costs = [resting_cost(Settings(nat_gateways=count)) for count in range(1, zones + 1)]
    steps = [after - before for before, after in pairwise(costs)]
    assert zones > 1 and all(step > 0.04 for step in steps), "USD an hour of one more gateway"
    two = Settings().zones[:2]
    most, more = (resting_cost(Settings(availability_zones=two, nat_gateways=count)) for count in (2, 3))
    assert most == more, "a third gateway has no third zone"


def test_a_version_in_extended_support_costs_half_a_dollar_more() -> None:
    """Of a cluster of ours; on one that exists the control plane is not ours."""
    old = Settings(kubernetes_version="1.34")
    before, after = date(2026, 12, 1), date(2026, 12, 2)
    assert resting_cost(old, today=after) - resting_cost(old, today=before) == pytest.approx(0.50)
    assert resting_cost(Settings(), today=after) == resting_cost(Settings(), today=before)
    assert set(STANDARD_SUPPORT_ENDS) == set(ADDONS), "a new version needs the end of its standard support"
