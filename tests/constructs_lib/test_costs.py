"""What a deployment costs at rest follows from its settings."""

from itertools import pairwise

from constructs_lib.settings.costs import resting_cost
from constructs_lib.settings.fields import Settings


def test_each_nat_gateway_is_paid_for_and_there_is_one_a_zone_at_most():
    zones = len(Settings().zones)
    costs = [resting_cost(Settings(nat_gateways=count)) for count in range(1, zones + 1)]
    steps = [after - before for before, after in pairwise(costs)]
    assert zones > 1 and all(step > 0.04 for step in steps), "USD an hour of one more gateway"
    two = Settings().zones[:2]
    most, more = (resting_cost(Settings(availability_zones=two, nat_gateways=count)) for count in (2, 3))
    assert most == more, "a third gateway has no third zone"
