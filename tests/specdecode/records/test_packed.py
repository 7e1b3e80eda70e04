"""Records read back: the same values in a fifth of the memory."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from specdecode.experiment.base import MOST_ROUNDS
from specdecode.records import Chunk, RequestRecord
from specdecode.records.packed import PackedChunks, read_record
from specdecode.records.record import MOST_COUNT, MOST_COUNTED

from tests.specdecode.benchmark.making import record

counts = st.integers(min_value=0, max_value=2**31 - 1)
chunks = st.lists(
    st.builds(
        Chunk,
        at_s=st.floats(allow_nan=False, allow_infinity=False),
        chars=counts,
        tokens=st.none() | counts,
        reasoning_chars=counts,
    ),
    max_size=20,
)


@settings(max_examples=40)
@given(chunks, st.slices(20))
def test_packed_chunks_are_what_they_were(made, part):
    packed = PackedChunks(made)
    assert list(packed) == made and len(packed) == len(made)
    assert list(packed[part]) == made[part]
    assert not made or (packed[0], packed[-1]) == (made[0], made[-1])
    assert packed == tuple(made) and tuple(made) == packed


def test_a_record_whose_chunks_count_more_tokens_than_an_answer_has_is_refused():
    most = record([0.1, 0.2], tokens=3, chunk_tokens=[1, MOST_COUNTED - 1])
    assert read_record(most.model_dump_json().encode()) == most
    with pytest.raises(ValidationError, match=f"count {MOST_COUNTED + 1} tokens"):
        read_record(most.model_dump_json().replace(f'"tokens":{MOST_COUNTED - 1}', f'"tokens":{MOST_COUNTED}').encode())


@pytest.mark.parametrize(
    "told",
    [
        {"completion_tokens": MOST_COUNT + 1},
        {"round": MOST_ROUNDS},
        {"drafted": {"drafts": MOST_COUNT + 1, "draft_tokens": 1, "accepted_tokens": 0, "accepted_per_position": []}},
        {"drafted": {"drafts": 1, "draft_tokens": 1, "accepted_tokens": 0, "accepted_per_position": [MOST_COUNT + 1]}},
    ],
)
def test_counts_whose_sum_over_a_run_would_be_inexact_are_refused(told):
    with pytest.raises(ValidationError):
        read_record(json.dumps(record([0.1, 0.2], tokens=3).model_dump(mode="json") | told).encode())


def test_a_record_read_back_equals_the_one_that_was_written():
    made = record([0.1, 0.25, 0.5], tokens=7, chunk_tokens=[1, None, 3])
    assert read_record(made.model_dump_json().encode()) == made


def test_a_time_that_no_clock_can_tell_is_zero():
    made = read_record(record([1e-300, 0.25], end=-1e-10).model_dump_json().encode())
    assert (made.chunks[0].at_s, made.chunks[1].at_s, made.end_s) == (0.0, 0.25, 0.0)


def test_ten_thousand_chunks_take_less_than_a_quarter():
    line = record([0.001 * n for n in range(10_000)]).model_dump_json().encode()
    sizes = []
    for read in (RequestRecord.model_validate_json, read_record):
        tracemalloc.start()
        kept = read(line)
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert len(kept.chunks) == 10_000
    assert sizes[1] < sizes[0] / 4
