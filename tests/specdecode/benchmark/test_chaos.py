"""Every way in which a server can fail ends in one category, and every odd but whole answer counts."""

import asyncio

import pytest
from specdecode.benchmark.answer import Answer
from specdecode.benchmark.probe import probe
from specdecode.benchmark.prompts import Prompt
from specdecode.records import ErrorKind, RequestRecord

from tests.specdecode.benchmark.chaos import BEHAVIOURS, TOKENS, chaos_server
from tests.specdecode.benchmark.making import client, keep_in, planned, spec
from tests.specdecode.benchmark.virtual import World

SGLANG = [
    b'{"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}',
    b'{"choices": [{"delta": {"content": "b"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}',
    b'{"choices": [{"delta": {}, "finish_reason": "length"}]}',
    b'{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 8}}',
]
TIMEOUT_S = 0.4
ENOUGH_S = 120.0
"""For what comes at once, however busy the machine is."""

FAILURES = {
    "reset-at-once": ErrorKind.RESET,
    "closes-without-an-answer": ErrorKind.RESET,
    "stalls-before-the-head": ErrorKind.TIMEOUT,
    "stalls-before-the-first": ErrorKind.TIMEOUT,
    "stalls-in-the-middle": ErrorKind.TIMEOUT,
    "babbles-comments-for-ever": ErrorKind.TIMEOUT,
    "reset-in-the-middle": ErrorKind.RESET,
    "cut-in-the-middle": ErrorKind.TRUNCATED,
    "ends-in-the-middle": ErrorKind.TRUNCATED,
    "cut-within-an-event": ErrorKind.TRUNCATED,
    "done-without-a-reason": ErrorKind.TRUNCATED,
    "status-400": ErrorKind.HTTP,
    "status-404-as-vllm-writes-it": ErrorKind.HTTP,
    "status-429": ErrorKind.HTTP,
    "status-503-cut-short": ErrorKind.HTTP,
    "not-http": ErrorKind.PROTOCOL,
    "bad-chunk-size": ErrorKind.PROTOCOL,
    "malformed-json": ErrorKind.PROTOCOL,
    "json-that-is-no-object": ErrorKind.PROTOCOL,
    "event-without-choices": ErrorKind.PROTOCOL,
    "delta-that-is-no-object": ErrorKind.PROTOCOL,
    "invalid-utf8": ErrorKind.PROTOCOL,
    "surrogate-bytes": ErrorKind.PROTOCOL,
    "error-in-the-stream": ErrorKind.SERVER,
    "error-object-in-a-200": ErrorKind.SERVER,
    "ends-by-error": ErrorKind.SERVER,
    "ends-by-abort": ErrorKind.SERVER,
    "ends-by-cancelled": ErrorKind.SERVER,
    "page-in-a-200": ErrorKind.PROTOCOL,
    "does-not-stream": ErrorKind.PROTOCOL,
    "no-text": ErrorKind.EMPTY,
    "only-done": ErrorKind.EMPTY,
}
UNCOUNTED = {
    "no-usage": "no usage",
    "usage-too-small": "counts 3 tokens, but 8 chunks",
    "usage-too-large": "at most 8",
    "usage-negative": "makes no sense",
    "usage-as-text": "makes no sense",
    "usage-as-number": "makes no sense",
    "running-usage-huge-to-the-end": "at most 8",
    "running-usage-of-a-part": "counts 8 tokens, but its running counts end with 3",
}
MESSAGES = {
    "status-400": "status 400: too long",
    "status-404-as-vllm-writes-it": "status 404: no such model",
    "status-429": "status 429: slow down",
    "error-in-the-stream": "engine died",
    "error-object-in-a-200": "out of memory",
    "ends-by-abort": "the server ended the answer: abort",
    "done-without-a-reason": "without a finish_reason",
    "stalls-in-the-middle": "3 chunks",
    "cut-in-the-middle": "3 chunks",
}
WHOLE = set(BEHAVIOURS) - set(FAILURES) - set(UNCOUNTED)


def ask(model: str, *, timeout_s: float = ENOUGH_S) -> RequestRecord:
    async def run() -> RequestRecord:
        records: list[RequestRecord] = []
        async with chaos_server() as url:
            await client(url).request(planned(model, timeout_s=timeout_s), keep_in(records))
        assert len(records) == 1
        return RequestRecord.model_validate_json(records[0].model_dump_json())

    return asyncio.run(run())


@pytest.mark.parametrize(("model", "kind"), FAILURES.items())
def test_failure_has_its_category(model: str, kind: ErrorKind, request: pytest.FixtureRequest) -> None:
    if kind is ErrorKind.TIMEOUT:
        request.getfixturevalue("world")
    record = ask(model, timeout_s=TIMEOUT_S if kind is ErrorKind.TIMEOUT else ENOUGH_S)
    assert record.error is not None
    assert record.error.kind is kind, record.error.message
    assert MESSAGES.get(model, "") in record.error.message
    if kind is ErrorKind.TIMEOUT:
        assert record.end_s == pytest.approx(TIMEOUT_S)


@pytest.mark.parametrize("model", sorted(WHOLE))
def test_odd_but_whole_answer_is_valid(model: str) -> None:
    record = ask(model)
    assert record.error is None
    assert record.usage_problem is None
    assert record.completion_tokens == TOKENS
    assert record.prompt_tokens == 5
    assert sum(chunk.chars for chunk in record.chunks) == len(record.output)
    assert [chunk.at_s for chunk in record.chunks] == sorted(chunk.at_s for chunk in record.chunks)
    assert 0 < record.chunks[0].at_s <= record.end_s


@pytest.mark.parametrize(("model", "problem"), UNCOUNTED.items())
def test_impossible_usage_is_not_believed(model: str, problem: str) -> None:
    record = ask(model)
    assert record.error is None
    assert record.completion_tokens is None
    assert problem in record.usage_problem


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("no-usage", " (the server sent no usage: only times"),
        ("usage-too-small", "counts 3 tokens, but 8"),
        ("good", ""),
    ],
)
def test_the_user_is_told_before_the_load_why_tokens_will_not_count(model: str, problem: str) -> None:
    async def told() -> str:
        async with chaos_server() as url:
            prompt = Prompt(text="hello", input_tokens=1)
            return (await probe(client(url), model=model, prompt=prompt, workload=spec().workload)).told

    said = asyncio.run(told())
    assert problem in said and ("only times can be told" in said) is bool(problem)


def test_an_answer_of_an_exact_length_may_end_in_tokens_without_text() -> None:
    """SGLang counts on with each chunk, and sends none for text that is empty."""
    kept = []
    for exact in (True, False):
        taken = Answer()
        for event in SGLANG:
            taken.take(event, 0.1)
        taken.check_usage(TOKENS, exact=exact)
        kept.append(taken.completion_tokens)
    assert kept == [TOKENS, None]


def test_text_is_what_was_sent() -> None:
    expected = "".join(f"t{number} " for number in range(TOKENS))
    for model in ("good", "empty-deltas", "keep-alive-comments", "byte-by-byte", "carriage-returns", "all-in-one-read"):
        record = ask(model)
        assert record.output == expected
        assert len(record.chunks) == TOKENS


def test_reasoning_counts_as_text_and_is_told_apart() -> None:
    record = ask("reasoning")
    assert record.output == "hm ah thus so t0 t1 t2 t3 "
    assert [(chunk.chars, chunk.reasoning_chars) for chunk in record.chunks[:3]] == [(3, 3), (3, 3), (8, 5)]
    assert record.chunks[-1].reasoning_chars == 0


def test_running_usage_gives_the_tokens_of_each_chunk() -> None:
    assert [chunk.tokens for chunk in ask("running-usage").chunks] == [1, 3, 0, 4]


@pytest.mark.parametrize(
    "model", ["running-usage-huge-in-the-middle", "running-usage-huge-to-the-end", "running-usage-of-0"]
)
def test_running_usage_that_contradicts_the_answer_is_not_believed(model: str) -> None:
    assert {chunk.tokens for chunk in ask(model).chunks} == {None}


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://no-such-host.invalid:1"])
def test_nobody_answers(url: str) -> None:
    records: list[RequestRecord] = []
    asyncio.run(client(url).request(planned("good"), keep_in(records)))
    assert records[0].error.kind is ErrorKind.CONNECT


def test_a_cancelled_request_leaves_its_record(world: World) -> None:
    async def run() -> list[RequestRecord]:
        records: list[RequestRecord] = []
        async with chaos_server() as url:
            task = asyncio.create_task(
                client(url).request(planned("stalls-in-the-middle", timeout_s=9), keep_in(records))
            )
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
        return records

    (record,) = asyncio.run(run())
    assert record.error.kind is ErrorKind.CANCELLED
    assert len(record.chunks) == 3


def test_many_at_once_do_not_mix() -> None:
    async def run() -> list[RequestRecord]:
        records: list[RequestRecord] = []
        models = [*FAILURES, *WHOLE, *UNCOUNTED] * 3
        async with chaos_server() as url:
            sender = client(url)
            kinds = [FAILURES.get(model) for model in models]
            plans = [
                planned(model, index=index, timeout_s=3 if kind is ErrorKind.TIMEOUT else ENOUGH_S)
                for index, (model, kind) in enumerate(zip(models, kinds, strict=True))
            ]
            await asyncio.gather(*(sender.request(plan, keep_in(records)) for plan in plans))
        for record in records:
            expected = FAILURES.get(models[record.index])
            assert (record.error.kind if record.error else None) == expected, models[record.index]
        return records

    records = asyncio.run(run())
    assert len({record.index for record in records}) == len(records) == 3 * len(BEHAVIOURS)
