"""Records are made beside the load; what waits to be made is bounded, however fast answers come."""

import asyncio

from specdecode.benchmark.loading import BACKLOG, Recorder

from tests.specdecode.benchmark.making import record


def test_answers_that_come_faster_than_records_are_made_do_not_pile_up():
    """Two answers a turn of the loop, one record a turn: without a bound the half of all would wait at the end."""
    kept, made, waiting = [], record(), []

    async def load():
        async with Recorder(kept.append).running() as recorder:
            for _ in range(2 * BACKLOG):
                recorder.add(lambda: made)
                recorder.add(lambda: made)
                await asyncio.sleep(0)
                waiting.append(len(recorder._waiting))

    asyncio.run(load())
    assert len(kept) == 4 * BACKLOG
    assert BACKLOG // 2 < max(waiting) <= BACKLOG + 2


def test_a_burst_is_worked_off_one_by_one_so_that_others_are_read_in_between():
    kept, made = [], record()

    async def load():
        async with Recorder(kept.append).running() as recorder:
            for _ in range(BACKLOG // 2):
                recorder.add(lambda: made)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return len(kept)

    assert asyncio.run(load()) <= 2
