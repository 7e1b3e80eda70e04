"""A hundred claims at once, on one node and on several, of runs with one claim and with several."""

import time

import pytest

from tests.specdecode.runs.crowd import StrictS3, check, gather, run_of


@pytest.mark.parametrize(
    ("nodes", "units"), [(4, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((1, 1), (2, 1), (16, 16)))]
)
def test_a_hundred_claims_take_turns_in_the_order_of_their_coming(nodes, units):
    crowd = gather(
        StrictS3(), bucket="b", runs=100, stopped=50, nodes=nodes, units=units, sleep=lambda s: time.sleep(s / 200)
    )
    check(crowd, runs=100, nodes=nodes)
    assert crowd.largest < 64 * 1024
    assert len(crowd.doomed) >= 50 and not {run_of(one) for one in crowd.doomed} & {run_of(one) for one in crowd.held}
