"""Conversations by turn: time to the first token of each, and what a prefix cache had of its prompt."""

from __future__ import annotations

from specdecode.measures.turns import by_turn
from specdecode.records import ErrorKind, RequestRecord

from tests.specdecode.benchmark.making import record


def asked(index: int, turn: int, ttft: float, **fields: object) -> RequestRecord:
    return record([ttft, ttft + 0.1], index=index, turn=turn, **fields)


def test_each_turn_has_its_own_time_to_the_first_token() -> None:
    first, second = by_turn(
        [
            asked(0, 0, 0.1, prompt_tokens=10, cached_tokens=0),
            asked(1, 1, 0.4, prompt_tokens=50, cached_tokens=32),
            asked(2, 0, 0.3, prompt_tokens=20, cached_tokens=0),
            asked(3, 1, 0.6, prompt_tokens=70, cached_tokens=64),
        ]
    )
    assert (first.turn, first.ttft.n, first.prompt_tokens, first.cached_tokens) == (1, 2, 15.0, 0.0)
    assert (second.turn, second.ttft.mean, second.prompt_tokens, second.cached_tokens) == (2, 0.5, 60.0, 48.0)


def test_what_a_server_does_not_say_of_every_request_is_not_known() -> None:
    _, second = by_turn([asked(0, 0, 0.1), asked(1, 1, 0.1, cached_tokens=3), asked(3, 1, 0.1)])
    assert second.cached_tokens is None


def test_failed_turns_are_left_out_and_prompts_of_their_own_have_none() -> None:
    found = by_turn([asked(0, 0, 0.1), asked(1, 1, 0.2), asked(3, 1, 9.0, error=ErrorKind.RESET)])
    assert [each.ttft.n for each in found] == [1, 1]
    assert by_turn([asked(0, 0, 0.1), asked(1, 0, 0.1)]) == ()
