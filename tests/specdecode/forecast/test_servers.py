"""Servers that are not what they are taken for: another tokenizer, impossible figures, floods, prompts in errors."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from specdecode.benchmark.endpoint import Endpoint, Reply
from specdecode.cli import app
from specdecode.experiment.most_tokens import MostTokens
from specdecode.forecast.answers import WrittenAnswer, WrittenAnswers
from specdecode.forecast.making import AT_A_TIME, forecast
from specdecode.forecast.server import MOST_TOKENS, Tokens
from typer.testing import CliRunner

from tests.rehearsal.engine.conftest import DRAFT

ASKED, ANSWER = "My name is Ada Lovelace.", "and I live at a quiet place near the old town gate."


@dataclass
class Fake:
    """A server for the requests of a forecast."""

    words: Callable[[str], list[int]] = lambda text: [len(word) for word in text.split()]
    place: Callable[[int], dict[str, Any]] = lambda token: {str(token): {"logprob": -0.1, "rank": 1}}
    refusal: Any = None

    async def fetch(self, endpoint: Endpoint, path: str, body: Any = None, *, timeout_s: float = 1.0) -> Reply:
        if body is None:
            return Reply(200, b'{"data": [{"id": "m"}]}')
        if self.refusal is not None:
            return Reply(400, json.dumps(self.refusal).encode())
        if path == "/tokenize":
            return Reply(200, json.dumps({"tokens": self.words(body["prompt"])}).encode())
        choice: dict[str, Any] = {"text": ANSWER}
        if isinstance(body["prompt"], list):
            choice["prompt_logprobs"] = [None, *map(self.place, body["prompt"][1:])]
        return Reply(200, json.dumps({"choices": [choice]}).encode())


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def run(server: Fake, *arguments: str, log: dict[str, Any] | None = None) -> Result:
        monkeypatch.setattr("specdecode.forecast.server.fetch", server.fetch)
        (file := tmp_path / "log.jsonl").write_text(json.dumps({"prompt": ASKED, "answer": ANSWER} | (log or {})))
        return CliRunner().invoke(app, ["forecast", *(arguments or ("--answers", str(file))), "--draft", "x=http://a"])

    return run


def test_a_draft_with_another_tokenizer_is_refused(told: Callable[..., Result], tmp_path: Path) -> None:
    log = str(tmp_path / "log.jsonl")
    by_folder = told(Fake(), "--answers", log, "--tokenizer", str(DRAFT))
    by_ids = told(Fake(), log={"token_ids": [*range(100, 115)]})
    by_prompt = told(Fake(), log={"prompt_token_ids": [101, 102, 103, 104, 105]})
    for result in (by_folder, by_ids, by_prompt):
        assert result.exit_code == 3 and "its tokenizer or chat template is another one" in result.output
    assert "(as many, but other ones)" in by_prompt.output
    assert told(Fake()).exit_code == 0, "nothing is known of the target"
    assert told(Fake(), log={"token_ids": [*Fake().words(ANSWER), 99]}).exit_code == 0


PLACES: dict[str, Callable[[int], dict[str, Any]]] = {
    "above 0": lambda token: {str(token): {"logprob": 0.5, "rank": 1}},
    "no number": lambda token: {str(token): {"logprob": False, "rank": 1}},
    "both have rank 1": lambda token: {each: {"logprob": -0.1, "rank": 1} for each in (str(token), "9999")},
}


@pytest.mark.parametrize("says", PLACES)
def test_impossible_figures_are_refused(told: Callable[..., Result], says: str) -> None:
    result = told(Fake(place=PLACES[says]))
    assert result.exit_code == 3 and says in result.output


def test_a_target_that_does_not_find_its_own_words_is_said(told: Callable[..., Result], tmp_path: Path) -> None:
    """And one that cannot read them."""
    (asked := tmp_path / "asked.jsonl").write_text(json.dumps({"prompt": ASKED}))
    arguments = ["--target", "http://b", "--prompts", str(asked)]
    other = told(Fake(place=lambda token: {str(token): {"logprob": -2.0, "rank": 2}}), *arguments)
    assert other.exit_code == 0 and "finds only 0 of 11 tokens" in other.output
    greedy = told(Fake(), *arguments)
    assert greedy.exit_code == 0 and "note" not in greedy.output


def test_a_prompt_of_endless_tokens_is_refused(told: Callable[..., Result]) -> None:
    result = told(Fake(words=lambda text: [7] * MOST_TOKENS))
    assert result.exit_code == 3 and f"a prompt of {MOST_TOKENS:,} tokens" in result.output


def test_no_ids_of_an_answer_are_kept_when_it_is_read() -> None:
    alive: list[weakref.ref[Tokens]] = []
    most = 0

    class Draft:
        name = "x"

        async def tokens(self, answer: WrittenAnswer) -> Tokens:
            made = Tokens(prompt=(1, 2), answer=(3, 4, 5))
            alive.append(weakref.ref(made))
            await asyncio.sleep(0)
            return made

        async def bits(self, tokens: Tokens) -> list[bool]:
            nonlocal most
            most = max(most, sum(ref() is not None for ref in alive))
            return [True, False]

    answers = WrittenAnswers(found=tuple(WrittenAnswer(category="all", prompt=str(n), text="a b c") for n in range(60)))
    made = asyncio.run(
        forecast(answers, [Draft()], ks=[3], most=MostTokens.K_PLUS_1, progress=lambda what, done, of: None)
    )
    assert made.drafts[-1].categories[0].tokens == 2 * 60
    assert most <= 2 * AT_A_TIME, "each makes tokens twice: to read, and to compare"


@pytest.mark.parametrize("error", [ASKED, {"error": {"message": f"cannot read {ASKED[3:20]}"}}, {"detail": [ASKED]}])
def test_a_server_s_error_shows_no_prompt(told: Callable[..., Result], error: Any) -> None:
    result = told(Fake(refusal=error))
    assert result.exit_code == 3 and "status 400" in result.output and "Ada" not in result.output
    result = told(Fake(refusal={"error": {"message": "too long: " + "z" * 200}}))
    assert "status 400: too long: zz" in result.output and "z" * 80 not in result.output


def test_a_draft_s_name_with_a_slash_is_explained(told: Callable[..., Result]) -> None:
    result = CliRunner().invoke(app, ["forecast", "--answers", "x", "--draft", "owner/name=PATH"])
    assert result.exit_code == 2 and "NAME is without /: name=PATH" in result.output
