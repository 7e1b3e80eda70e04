"""A hundred runs at once, on one node and on several."""

import time

import pytest

from tests.specdecode.runs.crowd import StrictS3, check, gather


@pytest.mark.parametrize("nodes", [4, *(pytest.param(nodes, marks=pytest.mark.slow) for nodes in (1, 2, 16))])
def test_a_hundred_runs_take_turns_in_the_order_of_their_coming(nodes):
    crowd = gather(StrictS3(), bucket="b", runs=100, stopped=50, nodes=nodes, sleep=lambda s: time.sleep(s / 200))
    check(crowd, runs=100, nodes=nodes)
    assert crowd.largest < 64 * 1024
    assert len(crowd.doomed) == 50 and not crowd.doomed & set(crowd.held)
