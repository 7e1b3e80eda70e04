"""What each of several clients sends: together they send what one would."""

from collections import Counter
from itertools import islice

import pytest
from specdecode.benchmark.clients import LoadSlice
from specdecode.benchmark.load import LoadPlan, arrival_times

SIZES = [(1, 7, 20), (2, 8, 33), (3, 8, 64), (4, 512, 1024), (5, 5, 4)]


@pytest.mark.parametrize(("clients", "concurrency", "requests"), SIZES)
def test_streams_and_requests_are_dealt_once_and_evenly(clients: int, concurrency: int, requests: int) -> None:
    slices = [LoadSlice(client=client, clients=clients) for client in range(clients)]
    assert sum(load_slice.streams(concurrency) for load_slice in slices) == concurrency
    dealt = [load_slice.of(range(requests), concurrency=concurrency) for load_slice in slices]
    assert Counter(index for each in dealt for index in each) == dict.fromkeys(range(requests), 1)
    rounds = requests // concurrency
    for load_slice, own in zip(slices, dealt, strict=True):
        streams = load_slice.streams(concurrency)
        assert rounds * streams <= len(own) <= (rounds + 1) * streams, "as many for each of its streams as the others"


def test_the_arrivals_of_all_clients_are_those_of_one() -> None:
    all_of_them = list(islice(arrival_times(LoadPlan(requests=None, rate=50.0, seed=3)), 12))
    slices = [LoadSlice(client=client, clients=3) for client in range(3)]
    plans = [LoadPlan(requests=None, rate=50.0, seed=3, load_slice=load_slice) for load_slice in slices]
    own = [list(islice(arrival_times(plan), 4)) for plan in plans]
    assert sorted(time for each in own for time in each) == all_of_them
    assert own[1] == all_of_them[1::3]
    assert slices[1].of(range(12), concurrency=None) == [1, 4, 7, 10], "requests go with the times"
