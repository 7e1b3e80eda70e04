"""What each of several clients sends: together they send what one would."""

from collections import Counter
from itertools import islice

import pytest
from specdecode.benchmark.clients import LoadSlice
from specdecode.benchmark.load import LoadPlan, _own_times, arrival_times

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
    single = LoadPlan(requests=None, rate=50.0, seed=3)
    all_of_them = list(islice(arrival_times(single), 12))
    own = [
        list(
            islice(_own_times(LoadPlan(requests=None, rate=50.0, seed=3, load_slice=LoadSlice(client=n, clients=3))), 4)
        )
        for n in range(3)
    ]
    assert sorted(time for each in own for time in each) == all_of_them
    assert own[1] == all_of_them[1::3]
    assert LoadSlice(client=1, clients=3).of(range(12), concurrency=None) == [1, 4, 7, 10], "requests go with the times"
