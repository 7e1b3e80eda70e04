import asyncio
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from specdecode.benchmark.counters import parse_prefix_caching

from rehearsal.engine.server import EngineServer
from tests.patience import until

from .conftest import Served

COUNT = "Count from 1 to 200:\n1\n2\n3\n"
STREAM = {"prompt": COUNT, "max_tokens": 60, "temperature": 0, "ignore_eos": True}
USAGE = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def test_tells_what_it_serves(base_server: Served) -> None:
    assert base_server.request("GET", "/health") == (200, "")
    _, models = base_server.request("GET", "/v1/models")
    assert [(model["id"], model["max_model_len"]) for model in models["data"]] == [("pair", 512)]


def test_one_chunk_a_step_and_the_counters_equal_a_recount(speculating_server: Served) -> None:
    before = speculating_server.counters()
    events = list(speculating_server.stream("/v1/completions", STREAM | USAGE))
    after = speculating_server.counters()
    steps, last = events[:-1], events[-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 60
    running = [0, *(event["usage"]["completion_tokens"] for event in steps)]
    tokens = [b - a for a, b in pairwise(running)]
    assert tokens[0] == 1  # the step that reads the prompt
    assert max(tokens) == 6
    assert sum(tokens) == 60
    delta = {name: after[name] - before[name] for name in after if name.endswith("_total")}
    assert delta["spec_decode_num_accepted_tokens_total"] == sum(count - 1 for count in tokens)
    assert delta["generation_tokens_total"] == 60
    assert delta["prompt_tokens_total"] == last["usage"]["prompt_tokens"]
    assert [event["choices"][0]["finish_reason"] for event in steps] == [None] * (len(steps) - 1) + ["length"]
    whole = speculating_server.complete(COUNT, max_tokens=60, temperature=0, ignore_eos=True)
    assert "".join(event["choices"][0]["text"] for event in steps) == whole["choices"][0]["text"]


def test_what_answers_say_of_their_drafts_adds_up_to_the_counters(speculating_server: Served) -> None:
    """Four at once, one of which ends in the middle of a step, another without a draft."""
    before = speculating_server.counters()
    lengths = (60, 33, 2, 1)

    def last(length: int) -> Any:
        body = {"prompt": COUNT, "max_tokens": length, "ignore_eos": True, **USAGE}
        return list(speculating_server.stream("/v1/completions", body))[-1]["metrics"]["speculative_decoding"]

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(last, lengths))
    whole = speculating_server.complete(COUNT, max_tokens=60, ignore_eos=True)
    assert whole["metrics"]["speculative_decoding"] == told[0]
    told.append(whole["metrics"]["speculative_decoding"])
    after = speculating_server.counters()
    delta = {name: after[name] - before[name] for name in after if name.startswith("spec_decode")}
    assert delta["spec_decode_num_drafts_total"] == sum(each["num_spec_steps"] for each in told)
    assert delta["spec_decode_num_draft_tokens_total"] == sum(each["num_draft_tokens"] for each in told)
    assert delta["spec_decode_num_accepted_tokens_total"] == sum(each["num_accepted_draft_tokens"] for each in told)
    for position in range(5):
        reached = sum(sum(each["acceptance_histogram"][position + 1 :]) for each in told)
        assert delta[f"spec_decode_num_accepted_tokens_per_pos_total[{position}]"] == reached
    assert told[-2]["num_spec_steps"] == 0


def test_it_says_that_it_keeps_no_beginnings_of_prompts(base_server: Served) -> None:
    assert parse_prefix_caching(base_server.request("GET", "/metrics")[1]) is False


def test_without_speculation_a_chunk_is_a_token(base_server: Served) -> None:
    events = list(base_server.stream("/v1/completions", STREAM))
    assert len(events) == 60
    assert all("usage" not in event for event in events)
    assert not any(name.startswith("spec_decode") for name in base_server.counters())


def test_chat_streams_a_role_and_then_the_text_of_the_same_prompt(speculating_server: Served) -> None:
    messages = [{"role": "system", "content": "Count from 1 to 200:"}, {"role": "user", "content": "1\n2\n3"}]
    body = {
        "messages": messages,
        "max_tokens": 40,
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    events = list(speculating_server.stream("/v1/chat/completions", body))
    assert events[0]["object"] == "chat.completion.chunk"
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(event["choices"][0]["delta"]["content"] for event in events)
    assert text == speculating_server.complete(COUNT, max_tokens=40)["choices"][0]["text"]
    status, answer = speculating_server.request("POST", "/v1/chat/completions", body | {"model": "pair"})
    assert status == 200
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": text}


def test_four_at_once_are_batched_and_equal_to_one_by_one(speculating_server: Served) -> None:
    prompts = [COUNT, "List:\n1. apple 1\n2. apple 2\n", "Write a sonnet:\n", "The cat sat on the mat. The cat "]
    alone = [speculating_server.complete(prompt, max_tokens=120, ignore_eos=True) for prompt in prompts]
    running: list[float] = []
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(speculating_server.complete, p, max_tokens=120, ignore_eos=True) for p in prompts]
        while not all(answer.done() for answer in answers):
            running.append(speculating_server.counters()["num_requests_running"])
    assert [answer.result()["choices"] for answer in answers] == [answer["choices"] for answer in alone]
    assert max(running) >= 3


def test_stop_strings_end_the_text_before_them(speculating_server: Served) -> None:
    answer = speculating_server.complete(COUNT, max_tokens=100, stop=["\n9", "never"])
    assert answer["choices"][0] | {"index": 0} == {
        "index": 0,
        "text": "4\n5\n6\n7\n8",
        "logprobs": None,
        "finish_reason": "stop",
        "stop_reason": "\n9",
    }
    events = list(speculating_server.stream("/v1/completions", {"prompt": COUNT, "max_tokens": 100, "stop": "\n9"}))
    assert "".join(event["choices"][0]["text"] for event in events) == "4\n5\n6\n7\n8"


def test_a_prompt_of_token_ids_is_taken_as_it_is(base_server: Served) -> None:
    status, answer = base_server.request(
        "POST", "/v1/completions", {"model": "pair", "prompt": [0, 10, 20], "max_tokens": 3, "ignore_eos": True}
    )
    assert status == 200
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"prompt": "x", "model": "other"}, 404, "does not exist"),
        ({"prompt": "x", "temperature": 0.7}, 400, "temperature: 0.7 is not supported"),
        ({"prompt": "x", "n": 2}, 400, "n: 2 is not supported"),
        ({"prompt": "x", "max_tokens": 0}, 400, "max_tokens: must be an integer of at least 1"),
        ({"prompt": "x", "max_tokens": 600}, 400, "maximum context length is 512 tokens"),
        ({"prompt": "word " * 600}, 400, "maximum context length is 512 tokens"),
        ({"prompt": "x", "min_tokens": 9, "max_tokens": 5}, 400, "min_tokens (9)"),
        ({"prompt": "x", "stream_options": {}}, 400, "only with stream=true"),
        ({"prompt": "x", "stop": [""]}, 400, "stop: must be"),
        ({"prompt": ""}, 400, "prompt: must not be empty"),
        ({"prompt": ["x", "y"]}, 400, "prompt: must be"),
        ({"prompt": [5, 768]}, 400, "token ids must be from 0 to 767"),
        ({}, 400, "prompt: must be"),
        ("{", 400, "no JSON"),
        ("[]", 400, "JSON object"),
    ],
)
def test_refusals_have_the_format_of_openai(base_server: Served, body: Any, status: int, named: str) -> None:
    sent = body if isinstance(body, str) else {"model": "pair", **body}
    answered, document = base_server.request("POST", "/v1/completions", sent)
    assert answered == status
    assert document["error"].keys() == {"message", "type", "param", "code"}
    assert document["error"]["code"] == status
    assert named in document["error"]["message"]


def test_several_problems_are_named_at_once(base_server: Served) -> None:
    body = {"model": "pair", "messages": [], "max_tokens": -1, "stream": "yes"}
    _, document = base_server.request("POST", "/v1/chat/completions", body)
    assert all(name in document["error"]["message"] for name in ("messages:", "max_tokens:", "stream:"))


def test_an_unknown_path_and_a_wrong_method_are_refused_as_vllm_does(base_server: Served) -> None:
    assert base_server.request("GET", "/v1/nothing") == (404, {"detail": "Not Found"})
    assert base_server.request("GET", "/v1/completions") == (405, {"detail": "Method Not Allowed"})


def test_a_client_that_leaves_frees_its_place(speculating_server: Served) -> None:
    def left_early(leave: Callable[[Served], None]) -> bool:
        """Whether the server noticed. It cannot if it had answered before this process came to leave."""
        before = speculating_server.counters()["request_success_total[abort]"]
        leave(speculating_server)
        until(lambda: not speculating_server.counters()["num_requests_running"])
        return speculating_server.counters()["request_success_total[abort]"] == before + 1

    for leave in (_leave_in_the_middle, _leave_without_reading):
        assert any(left_early(leave) for _ in range(20))


def test_not_healthy_until_loaded_and_an_api_key_is_demanded() -> None:
    async def look() -> None:
        server = EngineServer(model_name="pair", api_key="secret")
        async with TestClient(TestServer(server.application())) as client:
            assert (await client.get("/health")).status == 503
            assert (await client.get("/v1/models")).status == 401
            wrong = await client.get("/v1/models", headers={"Authorization": "Bearer other"})
            assert await wrong.json() == {"error": "Unauthorized"}
            right = await client.get("/v1/models", headers={"Authorization": "Bearer secret"})
            assert (right.status, (await right.json())["error"]["message"]) == (503, "The model is not loaded yet.")

    asyncio.run(look())


def _leave_in_the_middle(served: Served) -> None:
    events = served.stream("/v1/completions", {"prompt": COUNT, "max_tokens": 450})
    next(events)
    events.close()


def _leave_without_reading(served: Served) -> None:
    body = json.dumps({"model": "pair", "prompt": COUNT, "max_tokens": 450, "ignore_eos": True})
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        before = served.counters()["prompt_tokens_total"]
        connection.sendall((head + body).encode())
        until(lambda: served.counters()["prompt_tokens_total"] > before)
