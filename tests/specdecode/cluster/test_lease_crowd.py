"""A hundred runs want the node at once."""

import time

from tests.specdecode.cluster.crowd import StrictS3, check, gather


def test_a_hundred_runs_take_turns_in_the_order_of_their_coming():
    crowd = gather(StrictS3(), bucket="b", runs=100, stopped=70, sleep=lambda s: time.sleep(s / 200))
    check(crowd, runs=100, stopped=70)
    assert crowd.largest < 64 * 1024
