"""Several clients' records as one load: the worst client counts, and a load that was not common is marked."""

import pytest
from specdecode.measures.arm import measure_arm
from specdecode.measures.plausibility import (
    apart,
    apart_share,
    doubtful,
    doubts,
    impossible_counts,
    late,
    other_counts,
    other_work,
    too_busy,
)
from specdecode.records import RequestRecord

from tests.specdecode.benchmark.making import record


def load(
    client: int, *, begins: float = 0.0, requests: int = 50, clients: int = 2, **more: object
) -> list[RequestRecord]:
    """A client's requests of 1 s, one after the other."""
    return [
        record(
            (0.1, 0.6, 1.0),
            level="c512",
            index=2 * number + client,
            sent_s=begins + number,
            client=client,
            clients=clients,
            **more,
        )
        for number in range(requests)
    ]


def test_clients_that_loaded_together_are_one_load() -> None:
    merged = load(0) + load(1, begins=0.01)
    assert apart(merged) == [] and not doubtful(merged)
    measured = measure_arm(merged)
    assert measured.arm.requests == 100 and measured.arm.load_seconds == 50.01
    assert measured.arm.output_throughput == 300 / 50.01, "the tokens of both, over the time from first to last"
    single = [each.model_copy(update={"clients": 1}) for each in load(0)]
    assert apart(single) == [] and not doubtful(single)


def test_a_client_that_came_late_or_ended_early() -> None:
    (said,) = apart(load(0) + load(1, begins=5.0))
    assert said == (
        "The load on base/case at c512 is doubtful: for 18% of its time not all of its 2 clients were sending."
    )
    assert apart(load(0) + load(1, requests=40)) and doubtful(load(0) + load(1, requests=40))
    assert apart(load(0) + load(1, begins=1.0)) == [], "4% of the time"
    (said,) = apart(load(0, clients=3) + load(2, clients=3))
    assert said == "The load on base/case at c512 is doubtful: of its 3 clients there is no record of 1."
    assert doubtful(load(0))


def test_sessions_are_laid_side_by_side_each_on_its_own() -> None:
    again = [each.model_copy(update={"session": 1, "index": each.index + 100}) for each in load(0) + load(1)]
    assert apart(load(0) + load(1) + again) == [], "the second began at the same second of its own clock"
    alone = load(1, requests=10, begins=60.0, session=1)
    assert apart_share([*load(0), *load(1, requests=40), *alone], 2) == 1 - 40 / 60
    late = load(0, round=1) + load(1, begins=20.0, round=1)
    (said,) = apart(load(0) + load(1) + late)
    assert "base/case at c512 in round 2" in said


def test_a_busy_machine_that_delays_half_of_the_requests_a_little_is_not_late() -> None:
    clean, slow = (load(0, requests=4, begins=at, clients=1) for at in (0.0, 4.0))
    delayed = [each.model_copy(update={"time_doubt_s": 0.006, "doubtful_chunks": len(each.chunks)}) for each in slow]
    assert doubtful(clean + delayed) and not late(clean + delayed) and late(clean[1:] + delayed)


def test_chunks_that_were_read_together_leave_the_speed_of_an_answer_sure() -> None:
    """The kernel has the time of the last one. What a client times when it reads (TLS) has none that is sure."""
    together, by_read = (
        [each.model_copy(update={"time_doubt_s": 0.5, "doubtful_chunks": len(each.chunks) - less}) for each in load(0)]
        for less in (1, 0)
    )
    single = [[each.model_copy(update={"clients": 1}) for each in found] for found in (together, by_read)]
    assert [late(found) for found in single] == [False, True]
    assert all(map(doubtful, single)), "the times between the chunks are wrong in both"


def test_hidden_reasoning_needs_no_text() -> None:
    counts = {"output": "x" * 50, "completion_tokens": 200, "reasoning_tokens": 100}
    (said,) = impossible_counts([each.model_copy(update=counts) for each in load(0, requests=16)])
    assert said.startswith("the server counts 1,600 tokens (beside 1,600 of hidden reasoning) for 800 bytes of text")


def test_a_cache_holds_no_more_of_a_prompt_than_it_has() -> None:
    said = [
        list(
            impossible_counts(
                [each.model_copy(update={"prompt_tokens": 64, "cached_tokens": cached}) for each in load(0)]
            )
        )
        for cached in (64, 65)
    ]
    assert said == [[], ["the server finds 65 tokens of a prompt of 64 in its cache"]]


@pytest.mark.parametrize(
    ("base", "other", "hidden", "alike"),
    [
        (1000, 1061, 0, True),
        (1062, 1000, 0, False),
        (0, 40, 0, True),
        (400, 800, 0, False),
        (9000, 12000, 6000, True),
        (200, 400, 200, False),
    ],
)
def test_equal_texts_are_counted_alike(base: int, other: int, hidden: int, alike: bool) -> None:
    """2% and four tokens an answer apart, at most; and half of what is thought and not shown."""
    why = other_counts(base, other, hidden=hidden, answers=10)
    assert (why == "") is alike and (alike or f"count {base:,} and {other:,} tokens in 10 answers" in why)


def test_the_worst_client_counts() -> None:
    """2% of the chunks of one in four clients are 0.5% of all chunks, and make the load doubtful."""
    clean = [each for client in (0, 1, 2) for each in load(client, clients=4)]
    lags = [
        each.model_copy(update={"time_doubt_s": 0.02, "doubtful_chunks": 1}) if number < 3 else each
        for number, each in enumerate(load(3, clients=4))
    ]
    assert doubtful(clean + lags) and not doubtful(clean + load(3, clients=4))


def test_a_client_that_kept_up_is_not_doubted_and_one_that_did_not_is_told_by_how_much() -> None:
    clean = load(0, clients=1)
    assert doubts(clean) == []
    (told,) = doubts([*clean, clean[0].model_copy(update={"time_doubt_s": 0.0123})])
    assert told == "this client was late for some chunks: times may be wrong by up to 12.3 ms"


@pytest.mark.parametrize(
    ("compared", "from_start", "other"),
    [(80, 4, False), (79, 4, True), (10, 3, False), (10, 4, True), (4, 4, True), (3, 3, True), (3, 2, False)],
)
def test_few_answers_that_part_from_the_first_token_on_may_be_a_tie(
    compared: int, from_start: int, other: bool
) -> None:
    assert bool(other_work(compared=compared, from_start=from_start)) is other


def test_requests_may_pass_the_time_that_they_are_said_to_take_by_a_tenth_of_it_and_of_a_second() -> None:
    assert not too_busy([1.7, 1.65], took_s=1.5, at_a_time=2) and too_busy([1.7, 1.75], took_s=1.5, at_a_time=2)
