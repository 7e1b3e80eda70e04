"""A prompt file is read whole, in the formats that people have, or refused with one line for each bad line."""

import ast
import json
import math
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specdecode.prompts import BadPromptSet, PromptSet, digest, read_set, reading, set_name

OWN = [
    {"set": {"name": "tickets", "version": "3", "licence": "ours", "structured": ["triage"]}},
    {"id": "a", "category": "triage", "turns": ["Which team?"], "system": "Answer with a word.", "output_tokens": 8},
    {"id": "b", "category": "chat", "turns": ["Hello.", "And now?"]},
]


ASKED = {"role": "user", "content": "?"}
IMAGE = [{"type": "text", "text": "what is"}, {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]


def lines(*records: Any) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def read(data: bytes) -> PromptSet:
    return read_set(data, name="given")


def problems(data: bytes) -> list[tuple[int, str]]:
    with pytest.raises(BadPromptSet) as refused:
        read(data)
    return [(each.line, each.problem) for each in refused.value.problems]


def test_our_own_format() -> None:
    found = read(lines(*OWN))
    assert (found.name, found.version, found.licence, found.structured) == ("tickets", "3", "ours", ("triage",))
    assert found.sha256 == digest(lines(*OWN))
    assert found.categories == ("triage", "chat")
    first, second = found.rows
    assert first.output_tokens == 8
    assert first.messages() == [
        {"role": "system", "content": "Answer with a word."},
        {"role": "user", "content": "Which team?"},
    ]
    assert second.turns == ("Hello.", "And now?")
    found = read(lines(*({"id": name, "category": name, "turns": ["?"]} for name in ("a.b", "a-b"))))
    assert (found.categories, found.labels) == (("a.b", "a-b"), ())


def test_spec_bench() -> None:
    """As in hemingkx/Spec-Bench, data/spec_bench/question.jsonl: numbers as ids, underscores, a reference."""
    found = read(
        lines(
            {"question_id": 81, "category": "math_reasoning", "turns": ["2 + 2?"], "reference": ["4"]},
            {"question_id": 82, "category": "writing", "turns": ["A poem.", "Shorter."]},
        )
    )
    assert [(row.id, row.category, len(row.turns)) for row in found.rows] == [
        ("81", "math-reasoning", 1),
        ("82", "writing", 2),
    ]


def test_speed_bench_and_its_placeholders() -> None:
    row = {"question_id": "x1", "category": "coding", "sub_category": None, "source": "s", "src_id": "7"}
    assert read(lines({**row, "turns": ["Sort a list."], "multiturn": False})).rows[0].category == "coding"
    unfetched = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH\n\n{question}"
    ((line, said),) = problems(lines({**row, "turns": ["ok"]}, {**row, "question_id": "x2", "turns": [unfetched]}))
    assert line == 2
    assert "prepare_data.py" in said
    ((_, said),) = problems(b"PAR1\x15\x04")
    command = shlex.split(said.partition("pyarrow: ")[2])
    assert command[:2] == ["python", "-c"]
    ((module, call),) = [ast.parse(command[2]).body]
    assert ast.unparse(module) == "import pandas"
    assert "read_parquet('FILE').to_json(" in ast.unparse(call) and "lines=True" in ast.unparse(call)


def test_sharegpt_as_one_array_over_many_lines() -> None:
    conversations = [
        {
            "id": "QWJhYvA_0",
            "conversations": [
                {"from": "system", "value": "Be brief."},
                {"from": "human", "value": "Hi"},
                {"from": "gpt", "value": "Hello!"},
                {"from": "human", "value": "Why?"},
            ],
        },
        {"id": "empty", "conversations": []},
        {"id": "only-an-answer", "conversations": [{"from": "gpt", "value": "a"}, {"from": "gpt", "value": "b"}]},
    ]
    found = read(json.dumps(conversations, indent=2).encode())
    assert found.skipped == 2
    (row,) = found.rows
    assert (row.id, row.system, row.turns) == ("QWJhYvA_0", "Be brief.", ("Hi", "Why?"))
    # As json.dump writes it.
    found = read(json.dumps([{"prompt": "a"}, {"prompt": "b"}]).encode())
    assert [(row.id, row.turns) for row in found.rows] == [("line-1", ("a",)), ("line-2", ("b",))]
    talk = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": ""}, {"from": "human", "value": " "}]
    found = read(lines({"id": "whole", "conversations": talk[:2]}, {"id": "broken", "conversations": talk}))
    assert ([row.id for row in found.rows], found.skipped) == (["whole"], 1)
    assert problems(lines({"conversations": talk}))[0][1].startswith("no prompt in it but 1 conversations")


def test_vllms_custom_lines() -> None:
    found = read(lines({"prompt": "Capital of India?", "output_tokens": 10}, {"prompt": "Iran?", "max_tokens": 15.0}))
    assert [(row.id, row.turns, row.output_tokens) for row in found.rows] == [
        ("line-1", ("Capital of India?",), 10),
        ("line-2", ("Iran?",), 15),
    ]


def test_openai_messages_are_sent_as_they_are() -> None:
    history = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "rain"},
    ]
    asked = {"role": "user", "content": [{"type": "text", "text": "So an"}, {"type": "text", "text": "umbrella?"}]}
    system = {"role": "system", "content": "Short."}
    (row,) = read(lines({"messages": [system, *history, asked], "max_tokens": 20})).rows
    assert row.messages() == [system, *history, {"role": "user", "content": "So an\numbrella?"}]
    assert row.output_tokens == 20
    answered = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    ((_, said),) = problems(lines(answered))
    assert said.endswith("it is what is asked: drop the assistant's at the end, an arm writes its own")
    ((_, said),) = problems(lines({"messages": [{"role": "system", "content": "a"}]}))
    assert said.endswith("it is what is asked")


def test_categories_that_would_share_a_name_are_told_apart() -> None:
    names = [
        "C++",
        "C#",
        "c++",
        "翻译",
        "数学",
        None,
        "c-2",
        "Math Reasoning",
        "math_reasoning",
        "x" * 40 + "1",
        "x" * 40,
    ]
    found = read(lines(*({"prompt": str(at), "category": name} for at, name in enumerate(names))))
    same = "math-reasoning"
    expected = ["c", "c-3", "c", "prompts", "prompts-2", "prompts-3", "c-2", same, same, "x" * 40, "x" * 38 + "-2"]
    assert [row.category for row in found.rows] == expected
    assert dict(found.labels)["c-3"] == "C#"
    assert found.categories == tuple(dict.fromkeys(expected))


@settings(max_examples=100, derandomize=True)
@given(names=st.lists(st.none() | st.text("aAbB -_+#é翻译1", max_size=45), min_size=1, max_size=12))
def test_two_categories_have_one_name_only_if_they_are_spelled_alike(names: list[str | None]) -> None:
    found = read(lines(*({"prompt": str(at), "category": name} for at, name in enumerate(names))))
    spelled = [
        "" if name is None else " ".join(name.lower().replace("-", " ").replace("_", " ").split()) for name in names
    ]
    for own, row in zip(spelled, found.rows, strict=True):
        for other, twin in zip(spelled, found.rows, strict=True):
            assert (own == other) == (row.category == twin.category)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"question": "?"}, "none of the keys"), ([1], "no JSON object"),
        ({"id": "a", "category": "X y", "turns": ["a"]}, "category"),
        ({"id": "a", "category": "x", "turns": []}, "turns"),
        ({"id": "a", "category": "x", "turns": [" "]}, "turns.0"),
        ({"id": "a", "category": "x", "turns": ["a"], "sytem": "b"}, "sytem"),
        ({"prompt": "a", "output_tokens": 0}, "positive"), ({"prompt": "a", "output_tokens": True}, "positive"),
        ({"prompt": ["a"]}, "prompt is no text"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "last one"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "images"),
        ({"messages": [{"role": "robot", "content": "a"}]}, "'robot'"),
        ({"messages": [{"role": "user", "content": IMAGE}, ASKED]}, "message 1 has a content"),
        ({"messages": [{"role": "user", "content": []}, ASKED]}, "message 1 has a content"),
        ({"messages": [{"role": "tool", "content": None}, ASKED]}, "message 1 has a content"),
        ({"messages": [ASKED, "a"]}, "no list of messages"),
        ({"id": "a", "category": "x", "turns": ["a"], "history": [{"role": "robot", "content": "a"}]}, "'robot'"),
        ({"id": "a", "category": "x", "turns": ["a"], "history": [{"role": "user", "content": IMAGE}]}, "images"),
        ({"id": "a", "category": "x", "turns": ["a"], "output_tokens": math.nan}, "NaN is no number"),
        ({"prompt": "a", "output_tokens": math.nan}, "NaN is no number"),
        ({"prompt": "a", "max_tokens": -math.inf}, "-Infinity is no number"),
        ({"messages": [{"role": "system", "content": ""}, ASKED]}, "system: is empty"),
        ({"conversations": [{"from": "alien", "value": "a"}, {"from": "human", "value": "a"}]}, "from"),
        ({"set": {"name": "late"}}, "none of the keys"),
    ],
)  # fmt: skip
def test_one_bad_line_is_named_and_nothing_is_loaded(record: Any, said: str) -> None:
    good = {"prompt": "fine"}
    found = problems(lines(good, good, record, good))
    assert [line for line, _ in found] == [3]
    assert said in found[0][1]


def test_every_bad_line_is_named_at_once() -> None:
    data = lines({"prompt": "a"}) + b"{not json}\n\n" + lines({"prompt": ""}) + b'{"prompt": "\\ud800"}\n'
    assert [line for line, _ in problems(data)] == [2, 4, 5]
    assert [line for line, _ in problems(b'{"prompt": "a"}\n{"prompt": "\xff"}\n')] == [2]
    assert problems(lines(OWN[1], OWN[1])) == [(2, "id 'a' is that of line 1 already")]
    assert problems(b'[\n{"prompt": "a"},\n{"prompt": 3}\n') == [
        (0, "not JSON (Expecting ',' delimiter: line 4 column 1 (char 33))")
    ]
    assert [line for line, _ in problems(b'[{"prompt": "a"},\n{"prompt": NaN}, {"prompt": "\\ud800"}]')] == [2, 3]
    assert [line for line, _ in problems(b"")] == [0]
    # They may all stand on one line.
    with pytest.raises(BadPromptSet) as refused:
        read(b'[{"id": "a", "prompt": "x"}, {"id": "b", "prompt": ""}, {"id": "a", "prompt": "y"}]')
    assert str(refused.value).splitlines() == [
        "given: entry 2: turns.0: is empty",
        "entry 3: id 'a' is that of entry 1 already",
    ]


@pytest.mark.parametrize(
    ("data", "fix"),
    [
        (b'{"prompt": "a"}\n' * 20, "head -n 10000 FILE > part.jsonl"),
        (b'\xef\xbb\xbf \n[{"prompt": "a"}, {"prompt": "b"}]' + b" " * 200, "python -c "),
    ],
)
def test_a_file_that_is_too_large_says_how_to_take_a_part(
    monkeypatch: pytest.MonkeyPatch, data: bytes, fix: str
) -> None:
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", 100)
    ((_, said),) = problems(data)
    assert "MiB: take a part of it: " + fix in said


def test_the_advice_for_arrays_works(tmp_path: Path) -> None:
    (tmp_path / "FILE").write_text(json.dumps([{"prompt": "a"}] * 3))
    command = [sys.executable, "-c", reading.FROM_ARRAY.replace("10000", "2")]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "part.json").read_text()) == [{"prompt": "a"}] * 2


FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "own": ("turns", {"category": "a", "turns": ["Which team?", "And why?"], "system": "Be brief."}),
    "Spec-Bench": ("turns", {"category": "math_reasoning", "turns": ["2 + 2?"], "reference": ["4"]}),
    "SPEED-Bench": (
        "turns",
        {"category": "coding", "turns": ["Sort."], "source": "s", "src_id": "7", "multiturn": False},
    ),
    "ShareGPT": (
        "conversations",
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]},
    ),
    "vLLM": ("prompt", {"prompt": "Translate: tree", "output_tokens": 5}),
    "OpenAI": ("messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}),
}
"""Format -> the key that tells it, and a record."""


def record_of(name: str, number: int) -> dict[str, Any]:
    """A good record, each with its own id where the format has one."""
    key = {"own": "id", "Spec-Bench": "question_id", "SPEED-Bench": "question_id", "ShareGPT": "id"}.get(name)
    return {**({key: f"q{number}"} if key else {}), **FORMATS[name][1]}


def malformed(name: str) -> st.SearchStrategy[bytes]:
    """A line of that format that is none: cut off, its key of another type, no text, bytes of no character."""
    key, _ = FORMATS[name]
    good = record_of(name, 999)
    line = json.dumps(good).encode()
    infinite = st.sampled_from([math.nan, math.inf, -math.inf])
    message = st.sampled_from([7, None, {}, {"role": "robot", "content": "a"}, {"role": "user", "content": IMAGE}])
    before = {"own": "history", "OpenAI": "messages"}.get(name)
    worse = [message.map(lambda one: json.dumps({**good, before: [one, ASKED]}).encode())] if before else []
    wrong = st.sampled_from([7, -1.5, True, None, {}, [7], [None], [[]], [{}], ["", " "], {"a": "b"}])
    return st.one_of(
        st.integers(1, len(line) - 1).map(lambda cut: line[:cut]),
        wrong.map(lambda value: json.dumps({**good, key: value}).encode()),
        st.integers(1, len(line) - 2).map(lambda at: line[:at] + b"\xff" + line[at:]),
        infinite.map(lambda number: json.dumps({**good, "output_tokens": number}).encode()),
        *worse,
        st.binary(max_size=30).map(lambda junk: b"{" + junk.replace(b"\n", b"").replace(b"\r", b"")),
    )


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=100, derandomize=True)
@given(data=st.data(), good=st.integers(0, 5), after=st.integers(0, 5))
def test_200_malformed_files_of_each_format_are_refused_with_the_line_and_no_other(
    name: str, data: st.DataObject, good: int, after: int
) -> None:
    bad = data.draw(malformed(name))
    fine = [json.dumps(record_of(name, number)).encode() for number in range(good + after + 1)]
    assert len(read(b"\n".join(fine)).rows) == len(fine)
    found = problems(b"\n".join([*fine[: good + 1], bad, *fine[good + 1 :]]))
    assert [line for line, _ in found] == [good + 2]
    assert found[0][1]


@settings(max_examples=100, derandomize=True)
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_set_or_refused(data: bytes) -> None:
    try:
        assert read(data).rows
    except BadPromptSet as error:
        assert error.problems


def test_a_files_name_becomes_a_sets() -> None:
    assert set_name("My Tickets (2026)") == "my-tickets-2026"
    assert set_name("---") == "prompts"
    assert set_name("x" * 60) == "x" * 40
