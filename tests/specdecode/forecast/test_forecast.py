"""`specdecode forecast`: told from answers, held against servers that speculate; and hostile files."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from specdecode.benchmark.endpoint import Endpoint, Reply
from specdecode.cli import app
from specdecode.forecast.answers import MOST_CATEGORIES, BadAnswers, of_exchange, of_log
from specdecode.forecast.server import Reader
from specdecode.untrusted import MAX_FILE_BYTES
from typer.testing import CliRunner

from tests.rehearsal.engine import conftest as engine
from tests.rehearsal.engine.conftest import DRAFT, serve
from tests.specdecode.cli.calling import call

CASES = ("repeat-line", "meaning-of-life", "python-skeleton")
LOAD = [*(word for case in CASES for word in ("--case", case)), "--endpoint", "completions", "--input-tokens", "40"]
EXACT = 0.01
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def draft() -> Iterator[str]:
    """A server of the draft alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "TARGET", DRAFT)
        with serve("--max-model-len", "512") as served:
            yield f"http://127.0.0.1:{served.port}"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a target without and with this draft, k=5."""
    config = json.dumps({"model": str(DRAFT), "num_speculative_tokens": 5})
    folder = tmp_path_factory.mktemp("bench") / "out"
    with serve() as base, serve("--speculative-config", config) as sd:
        arms = [f"base=http://127.0.0.1:{base.port}", f"sd=http://127.0.0.1:{sd.port}"]
        length = ["--requests", "1", "--output-tokens", "48", "--ignore-eos", "--warmup", "0"]
        call("bench", *arms, *LOAD, *length, "--out", folder)
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of one answer."""
    (path := tmp_path / "log.jsonl").write_text(json.dumps(FORMS["pair"]) + "\n")
    return path


def forecast(*arguments: str, code: int = 0, only_stdout: bool = False) -> str:
    result = CliRunner().invoke(app, ["forecast", *arguments])
    assert result.exit_code == code and "Traceback" not in result.output, result.output
    return result.stdout if only_stdout else result.output


def told(*arguments: str) -> dict[str, Any]:
    return json.loads(forecast(*arguments, "--json", only_stdout=True))


def of(found: dict[str, Any], draft: str, k: int) -> dict[str, float]:
    """Tokens per step of each category."""
    categories = next(item["categories"] for item in found["drafts"] if item["draft"] == draft)
    return {own["category"]: next(at["tokens_per_step"] for at in own["at"] if at["k"] == k) for own in categories}


def test_it_tells_the_tokens_per_step_that_a_speculating_server_then_measures(measured: Path, draft: str) -> None:
    steps, tokens = defaultdict[str, int](int), defaultdict[str, int](int)
    for file in (measured / "raw" / "sd").glob("*.jsonl"):
        for record in map(json.loads, file.read_text().splitlines()):
            if not record["warmup"]:
                steps[record["case"]] += len(record["chunks"]) - 1
                tokens[record["case"]] += record["completion_tokens"] - record["chunks"][0]["tokens"]
    found = of(told("--answers", str(measured), "--draft", f"small={draft}", "--k", "5"), "small", 5)
    assert found.keys() == steps.keys()
    for case, value in found.items():
        assert value == pytest.approx(tokens[case] / steps[case], rel=EXACT), case


def test_a_server_of_the_target_writes_the_answers(tmp_path: Path, draft: str) -> None:
    """Of a file of prompts, the same as from a log of its own answers; and the text is in no result."""
    own = tmp_path / "own.jsonl"
    asked = ["Count from 20 to 60:\n20, 21, 22,", "The old house at the end of the road was"]
    own.write_text("".join(json.dumps({"category": "mine", "prompt": prompt}) + "\n" for prompt in asked))
    with serve() as target:
        url = f"http://127.0.0.1:{target.port}"
        given = ["--target", url, "--prompts", str(own), "--output-tokens", "24"]
        written = told(*given, "--draft", f"small={draft}", "--k", "5")
        log = tmp_path / "log.jsonl"
        with log.open("w") as file:
            for prompt in asked:
                body = {"prompt": prompt, "max_tokens": 24, "temperature": 0}
                reply = target.complete(**body)
                file.write(json.dumps({"request": body, "response": reply, "category": "mine"}) + "\n")
    logged = told("--answers", str(log), "--draft", f"small={draft}", "--k", "5")
    assert of(written, "small", 5) == of(logged, "small", 5) and of(written, "small", 5).keys() == {"mine"}
    assert "house" not in json.dumps(written)


def test_without_a_draft_it_tells_what_lookups_do(tmp_path: Path, draft: str) -> None:
    """With the target's tokenizer the same as with a draft's server, which makes the same tokens."""
    (log := tmp_path / "log.jsonl").write_text(
        "".join(json.dumps({"prompt": f"say {word}", "answer": f"{word} and more " * 9}) + "\n" for word in "abcd")
    )
    arguments = ["--answers", str(log), "--k", "3,5"]
    alone = told(*arguments, "--tokenizer", str(DRAFT))
    assert [item["draft"] for item in alone["drafts"]] == ["n-gram", "suffix"]
    assert alone["drafts"] == told(*arguments, "--draft", f"small={draft}")["drafts"][:2]
    assert of(alone, "suffix", 5)["all"] > 2.0
    assert "--tokenizer" in forecast(*arguments, "--tokenizer", str(tmp_path), code=3)


def test_an_experiment_with_its_forecast_is_planned_from_it(measured: Path, draft: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    arguments = ["--answers", str(measured), "--draft", f"pair-draft={draft}", "--write", str(file)]
    told_of = told("rehearsal-sweep", *arguments, "--runs", str(tmp_path))
    (whole,) = [on for on in told_of["payoff"]["on"] if on["prompts"] == "all"]
    assert whole["forecast"] and {at["k"] for at in whole["at"]} == {2, 4, 6, 8}
    planned = call("plan", file)
    assert "forecast" in planned.output and "chance" in planned.output
    page = tmp_path / "page.html"
    again = told(str(file), "--runs", str(tmp_path), "--page", str(page))
    assert again["payoff"] == told_of["payoff"] and again["tokens"]
    assert "Forecast: tokens per step</h2>" in page.read_text()
    assert "pair-draft" in forecast("rehearsal-sweep", "--answers", str(measured), "--draft", f"x={draft}", code=2)


@pytest.mark.parametrize("given", [[], ["rehearsal-sweep", "--answers", "x"], ["--write", "x.yaml"], ["nothing.yaml"]])
def test_what_is_missing_is_said(given: list[str]) -> None:
    assert forecast(*given, code=2).strip()


def test_nothing_of_a_text_is_in_the_result(tmp_path: Path, draft: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"prompt": "My name is Ada Lovelace", "answer": " and I live at 12 St James's Square."}))
    shown = forecast("--answers", str(log), "--draft", f"small={draft}", "--json")
    assert not any(word in shown for word in ("Ada", "Lovelace", "James", "Square", str(12)))


FORMS = {
    "pair": {"prompt": "Hi", "answer": "Hello"},
    "chat": {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
    "sharegpt": {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
    "openai chat": {
        "request": {"messages": [{"role": "user", "content": "Hi"}]},
        "response": {"choices": [{"message": {"role": "assistant", "content": "Hello"}}]},
    },
    "openai completion": {"request": {"prompt": "Hi"}, "response": {"choices": [{"text": "Hello"}]}},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_it_reads_logs_in_the_forms_that_people_have(tmp_path: Path, form: str, encoding: str) -> None:
    """With the ids that stand beside them; as lines, and as an array."""
    entry = {**FORMS[form], "prompt_token_ids": [1, 2], "token_ids": [3]}
    for text in (json.dumps(entry) + "\n", json.dumps([entry], indent=1) + "\n"):
        (log := tmp_path / "log.jsonl").write_text(text, encoding=encoding)
        (answer,) = of_log(log).found
        assert answer.text == "Hello" and answer.category == "all"
        assert answer.prompt in ("Hi", ({"role": "user", "content": "Hi"},))
        assert (answer.prompt_ids, answer.answer_ids) == ((1, 2), (3,))


def test_an_array_has_a_bound_and_its_bad_entries_are_named(tmp_path: Path) -> None:
    (log := tmp_path / "my log.json").write_text(json.dumps([1, FORMS["pair"]]))
    assert "entry 1: is no JSON object" in of_log(log).left_out[0]
    log.write_text("[" + " " * MAX_FILE_BYTES + "]")
    with pytest.raises(BadAnswers, match=r"larger than 64 MiB: jq -c '\.\[\]' '.*my log\.json' makes JSON Lines"):
        of_log(log)


def test_answers_that_were_sampled_are_said(tmp_path: Path) -> None:
    chat = FORMS["openai chat"]
    sampled = {**chat, "request": {**chat["request"], "temperature": 0.7}}
    rows = [sampled, {**FORMS["pair"], "temperature": 1}, {**FORMS["pair"], "temperature": 0}, chat]
    (log := tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (note,) = of_log(log).left_out
    assert "2 of 4 answers were sampled" in note


@pytest.mark.parametrize("thinking", [None, False])
def test_the_chat_template_is_told_of_thinking_what_the_answers_request_told_it(
    monkeypatch: pytest.MonkeyPatch, thinking: bool | None
) -> None:
    asked: list[dict[str, Any]] = []

    async def fetch(endpoint: Endpoint, path: str, body: dict[str, Any], *, timeout_s: float) -> Reply:
        asked.append(body)
        return Reply(200, b'{"tokens": [1, 2]}')

    monkeypatch.setattr("specdecode.forecast.server.fetch", fetch)
    told = {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}
    form = FORMS["openai chat"]
    answer = of_exchange({**form["request"], **told}, form["response"], "all")
    draft = Reader(name="small", endpoint=Endpoint.of("http://a"), model="m")
    asyncio.run(draft.tokens(answer))
    assert asked[0].get("chat_template_kwargs") == told.get("chat_template_kwargs")
    assert "messages" in asked[0]


HOSTILE = {
    "no JSON": "{",
    "a number": "1",
    "no answer": json.dumps({"prompt": "Hi"}),
    "nested": "[" * 20_000,
    "an answer of the user": json.dumps(
        {"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]}
    ),
    "ids that are none": json.dumps({"prompt": "a", "answer": "b", "token_ids": ["x"]}),
    "half a character": '{"prompt": "a", "answer": "\\ud800"}',
    "roles without text": json.dumps(
        {"messages": [{"role": "user"}, {"role": "assistant", "content": [{"type": "image_url"}]}]}
    ),
}


@pytest.mark.parametrize("line", HOSTILE)
def test_a_line_that_is_no_answer_is_named_and_left_out(log: Path, line: str) -> None:
    log.write_text(HOSTILE[line] + "\n" + json.dumps(FORMS["pair"]) + "\n")
    found = of_log(log)
    assert len(found.found) == 1 and "line 1" in found.left_out[0]
    log.write_text(HOSTILE[line] + "\n")
    with pytest.raises(BadAnswers, match="line 1"):
        of_log(log)


def test_a_huge_log_is_read_only_as_far_as_it_is_needed(log: Path) -> None:
    with log.open("wb") as file:
        file.write((json.dumps(FORMS["pair"]) + "\n").encode() * 3)
        file.truncate(10 * 2**30)  # the rest is a hole of zeros without a line end
    assert len(of_log(log, most=3).found) == 3
    with pytest.raises(BadAnswers, match="longer than"):
        of_log(log, most=4)


def test_categories_that_are_free_text_are_no_categories(log: Path) -> None:
    rows = [{**FORMS["pair"], "category": f"user {number}"} for number in range(MOST_CATEGORIES + 1)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert {answer.category for answer in of_log(log).found} == {"all"}


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "none"):
        with pytest.raises(BadAnswers):
            of_log(path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--draft", "x"], "write NAME=URL"),
        (["--draft", "x="], "write NAME=URL"),
        (["--draft", "x=ftp://a"], "http"),
        (["--draft", "x=http://127.0.0.1:9", "--k", "0,3"], "--k 0,3"),
    ],
)
def test_bad_input_ends_with_2_and_says_what_to_write(log: Path, arguments: list[str], says: str) -> None:
    assert says in forecast("--answers", str(log), *arguments, code=2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--k", "3"], ["--k is about answers"]),
        (["--model", "x=y", "--most-answers", "9"], ["--model is about answers", "--most-answers is about answers"]),
        (["--page", "x", "--write", "./x"], ["--page x: --write writes it"]),
        (["--page", "log", "--answers", "log", "--draft", "x=y"], ["--page log: the command reads it"]),
        (["--page", "none/x", "--write", "."], ["--page none/x: No such file", "--write .: Is a directory"]),
        (["--of", "run", "--answers", "log", "--draft", "x=y"], ["--of takes the forecast of a run, in place of"]),
    ],
)
def test_what_would_be_ignored_or_written_over_is_refused(
    arguments: list[str], says: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log").touch()
    said = forecast("qwen3-32b-tuning", *arguments, code=2)
    assert [text for text in says if text not in said] == [] and [*Path().iterdir()] == [Path("log")]


def test_an_experiment_is_not_written_over_nor_written_without_a_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("# why\nextends: qwen3-32b-tuning\n")
    assert "--write mine.yaml: the command reads it" in forecast("mine.yaml", "--write", "mine.yaml", code=2)
    assert "no forecast to write" in forecast("mine.yaml", "--write", "other.yaml", code=2)
    assert [*Path().iterdir()] == [Path("mine.yaml")] and Path("mine.yaml").read_text().startswith("# why")


def test_a_head_is_no_draft_and_every_own_arm_is_in_the_table(log: Path, tmp_path: Path) -> None:
    of_head, head = "llama-3.1-8b-eagle3", "llama-3.1-8b-instruct-speculator.eagle3"
    drafts = ["--answers", str(log), "--draft", f"{head}={NOWHERE}"]
    assert "hidden states" in forecast(of_head, *drafts, code=2)
    planned = CliRunner().invoke(app, ["plan", of_head]).output
    assert "hidden states" in planned and "with answers of the target" not in planned
    told = forecast("qwen3-32b-tuning", "--runs", str(tmp_path))
    assert told.count("sd-qwen3-0.6b-k15 ") == told.count("sd-qwen3-1.7b-k7 ") >= 3 and "* no arm" not in told
    other = forecast(of_head, "--runs", str(tmp_path))
    assert "\nsd " in other and "eagle3 k=4 * " in other and "* no arm of the experiment" in other


def test_the_sets_of_prompts_and_the_extra_to_install_are_named() -> None:
    shown = forecast("--target", NOWHERE, "--prompts", "structured", "--draft", f"x={NOWHERE}", code=2)
    assert "sets that ship: " in shown and "work" in shown
    assert "'.[draft]'" in CliRunner().invoke(app, ["forecast", "--help"], env={"COLUMNS": "200"}).output


def test_a_server_that_does_not_answer_ends_with_3(log: Path) -> None:
    assert "vllm serve" in forecast("--answers", str(log), "--draft", f"x={NOWHERE}", code=3)
