"""What a server says of an answer's drafts, and of all: read as vLLM writes it, passed over where it cannot be."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specdecode.benchmark import counters
from specdecode.benchmark.answer import Answer, drafted_of
from specdecode.benchmark.counters import (
    MAX_METRICS_BYTES,
    BlockCounters,
    Unusable,
    parse_counters,
    read_counters,
    since,
)
from specdecode.benchmark.endpoint import Endpoint
from specdecode.escape import plain
from specdecode.records import Drafted

from tests.specdecode.benchmark.pace import Pace, paced_server

VLLM = {
    "mean_acceptance_length": 1.2325581395348837,
    "draft_acceptance_rate": 0.07751937984496124,
    "acceptance_histogram": [39, 1, 0, 3],
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_tokens": 3,
}
"""The example of vLLM's pull request 48915."""


def test_the_example_of_vllm() -> None:
    assert drafted_of({"time_to_first_token_ms": 1.0, "speculative_decoding": VLLM}) == Drafted(
        drafts=43, draft_tokens=129, accepted_tokens=10, accepted_per_position=(4, 3, 3)
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"acceptance_histogram": {"0": 39, "1": 1}},  # an earlier form of the field
        {"acceptance_histogram": [39, 1, 0, -3]},
        {"acceptance_histogram": [39.0, 1, 0, 3]},
        {"acceptance_histogram": [1] * 100},
        {"acceptance_histogram": []},
        {"num_draft_tokens": None},
        {"num_draft_tokens": 9},  # fewer than were accepted
        {"num_draft_tokens": 130},  # more than 3 a step
        {"num_spec_steps": 44},
        {"num_accepted_draft_tokens": 11},
        {"acceptance_histogram": [2**31 - 1, 1, 0, 0], "num_draft_tokens": 1},  # a sum of many would be inexact
        {"acceptance_histogram": [0, 0, 0, 2**30], "num_draft_tokens": 3 * 2**30},
    ],
)
def test_what_cannot_be_is_passed_over(changed: dict[str, object]) -> None:
    assert drafted_of({"speculative_decoding": {**VLLM, **changed}}) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda part: st.lists(part) | st.dictionaries(st.sampled_from([*VLLM, "speculative_decoding"]), part),
    )
)
def test_whatever_a_server_says_is_a_count_or_nothing(said: object) -> None:
    found = drafted_of(said)
    assert found is None or found.accepted_tokens <= found.draft_tokens


def test_the_usage_chunk_brings_both_counts() -> None:
    answer = Answer()
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    answer.take(json.dumps({"choices": [], "usage": usage, "metrics": {"speculative_decoding": VLLM}}).encode(), 1.0)
    assert answer.drafted is not None
    assert (answer.drafted.drafts, answer.cached_tokens) == (43, 4)


@pytest.mark.parametrize("cached", [-1, 8, "4", None, True])
def test_cached_tokens_that_cannot_be_are_unknown(cached: object) -> None:
    answer = Answer()
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": cached}}
    answer.take(json.dumps({"choices": [], "usage": usage}).encode(), 1.0)
    assert (answer.cached_tokens, answer.prompt_tokens) == (None, 7)


METRICS = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 10.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 2.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 60.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 3.1e1
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 11.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 20.0
vllm:generation_tokens_total{model_name="m"} 99.0
"""


def test_vllms_counters() -> None:
    assert parse_counters(METRICS) == (12, 60, 31, 20, 11)
    assert parse_counters(METRICS.replace("vllm:", "llamacpp:")) == (12, 60, 31, 20, 11)
    assert parse_counters("vllm:generation_tokens_total 5") is None


def test_difference() -> None:
    assert since((2, 10, 1, 1, 0), (12, 60, 31, 20, 11)) == (10, 50, 30, 19, 11)
    assert since((0, 0, 0), (12, 60, 31, 20, 11)) == (12, 60, 31, 20, 11)
    went_back = Unusable("they went back during the load (was the server restarted?)")
    assert since((12, 60, 31, 20), (1, 5, 1, 1)) == went_back, "the server was restarted"
    assert since((12, 60, 31, 20), (13, 70, 30, 21)) == went_back, "fewer were accepted than before"
    assert since(None, None) is None and since(None, (1, 1, 1)) is None
    assert since((1, 1, 1), None) == Unusable("they are gone after the load")
    for one, other in ((went_back, (1, 1, 1)), ((1, 1, 1), went_back)):
        assert since(one, other) == went_back


@pytest.mark.parametrize("said", ["NaN", "+Inf", "1e400", "-1", "1e16", "many\x1b[2J"])
def test_a_counter_that_is_no_count_is_named(said: str) -> None:
    found = parse_counters(METRICS.replace("60.0", said))
    assert found == Unusable(f"num_draft_tokens is {plain(said)}")


def test_counters_whose_sum_is_not_exact_are_not_used() -> None:
    assert parse_counters(METRICS.replace('"0",model_name="m"} 10.0', '"0"} 9007199254740992')) == Unusable(
        "one is 9.0072e+15"
    )


def test_so_many_counters_that_they_would_take_long_to_read_are_not_read() -> None:
    """All that is read of a server's metrics is counters of speculation."""
    line = "spec_decode_num_drafts 1\n"
    assert parse_counters(line * (MAX_METRICS_BYTES // len(line))) == Unusable("there are more than 20,000 of them")
    every = "".join(f'spec_decode_num_accepted_tokens_per_pos{{position="{at}"}} 1\n' for at in range(64))
    assert parse_counters(METRICS + every * 256) == (12, 60, 31, 276, 267, *[256] * 62)


def test_metrics_are_read_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(text: str) -> object:
        async with paced_server(Pace(metrics=text)) as url:
            return await read_counters(Endpoint.of(url))

    assert asyncio.run(read(METRICS)) == (12, 60, 31, 20, 11)
    monkeypatch.setattr(counters, "MAX_METRICS_BYTES", len(METRICS) - 1)
    found = asyncio.run(read(METRICS))
    assert isinstance(found, Unusable) and f"longer than {len(METRICS) - 1} bytes" in found.why


def test_counters_that_no_server_reaches_are_left_out() -> None:
    found = BlockCounters()
    found.add(("sd", "case", 0, "c1"), (2**40, 2**40, 1), already=0, now=1)
    found.add(("sd", "case", 1, "c1"), (2**40, 2**40 + 1, 1), already=0, now=1)
    assert [item.round for item in found.whole(trusted=True)] == [0]
    why = "the server's own counters of speculation are not used: they grew by 1,099,511,627,777."
    assert found.unused() == [f"sd/case at c1 in round 2: {why}"]


def test_the_first_reason_why_counters_are_not_used_is_told() -> None:
    found = BlockCounters()
    block = ("sd", "case", 0, "c1")
    for at, part in enumerate([(1, 1, 1), Unusable("of this"), (1, 1, 1), Unusable("of that"), None]):
        found.add(block, part, already=at, now=at + 1)
    assert found.unused() == ["sd/case at c1: the server's own counters of speculation are not used: of this."]
    assert not found.whole(trusted=True) and list(found.blocks) == [block]
