"""`specdecode ask`, with a pod that has written its answer, and `run --hold`."""

import json
from typing import Any

import pytest
from specdecode.cli import app, runs_deployment
from specdecode.records.asks import AskPart
from typer.testing import CliRunner

from tests.specdecode.cli.runs_fake import NOW, STATE, FakeDeployment
from tests.specdecode.steps.aws_fake import FakeS3
from tests.untrusted.hostile import EVERYTHING

PARTS = [AskPart(text="Machine "), AskPart(text=EVERYTHING), AskPart(done=True, tokens=9, finish_reason="length")]


class Mailbox(FakeS3):
    """A bucket in which the pod answers each question with `parts`, one at every look."""

    parts: list[AskPart] = PARTS
    question: dict[str, Any] | None = None

    def put_object(self, *, Key: str, Body: bytes, **given: Any) -> None:
        super().put_object(Key=Key, Body=Body, **given)
        if Key.endswith("question.json"):
            self.question, self._folder, self._left = json.loads(Body), Key.removesuffix("question.json"), [*self.parts]

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        if self.question and self._left and Key.endswith(f"{len(self.parts) - len(self._left):04}.json"):
            self.objects[Key] = self._left.pop(0).model_dump_json().encode()
        return super().get_object(Bucket=Bucket, Key=Key)


class Holding(FakeDeployment):
    """A run that holds both arms; at the look `gone_at` it holds them no longer."""

    gone_at = 0

    def state(self, run_id: str) -> Any:
        Holding.gone_at -= 1
        held = {"answering": ("base", "sd"), "answers_until": NOW} if self.gone_at else {}
        return STATE.model_copy(update=held)


@pytest.fixture
def question(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(runs_deployment, "Deployment", Holding)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    FakeDeployment.looks, Holding.gone_at, FakeDeployment.s3 = -100, 0, Mailbox()
    return lambda *arguments: CliRunner().invoke(app, ["ask", "r", *arguments])


def test_an_answer_is_shown_part_by_part_and_nothing_of_it_stays(question: Any) -> None:
    result = question("base", "What is it?", "--max-tokens", "9")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Machine <script>") and "\x1b" not in result.stdout
    assert "base: 9 tokens, ended by length" in result.stderr
    bucket = FakeDeployment.s3
    assert isinstance(bucket, Mailbox) and bucket.objects == {}
    assert bucket.question == {"arm": "base", "prompt": "What is it?", "max_tokens": 9, "temperature": 0.0}
    document = json.loads(question("base", "What is it?", "--json").stdout)
    assert document["text"] == "Machine " + EVERYTHING and document["tokens"] == 9


@pytest.mark.parametrize(
    ("words", "parts", "code", "told"),
    [
        (("sd9", "What?"), PARTS, 2, "held now: base, sd"),
        (("sd",), PARTS, 2, "What is machine learning?"),
        (("sd", "x" * 2**16), PARTS, 2, "at most 64 KiB"),
        (("sd", "What?", "--max-tokens", "5000"), PARTS, 2, "max-tokens"),
        (
            ("sd", "What?"),
            [AskPart(text="A"), AskPart(done=True, error="HTTP 400")],
            1,
            "the answer broke off: HTTP 400",
        ),
    ],
)
def test_what_it_refuses_says_what_to_do(
    question: Any, words: tuple[str, ...], parts: list[AskPart], code: int, told: str
) -> None:
    FakeDeployment.s3.parts = parts  # type: ignore[attr-defined]
    result = question(*words)
    assert result.exit_code == code and told in " ".join(result.output.split()), result.output
    assert FakeDeployment.s3.objects == {}


@pytest.mark.parametrize(("arm", "sent"), [("base", 0.7), ("sd", 0.0)])
def test_an_arm_that_is_greedy_at_any_temperature_says_so(question: Any, arm: str, sent: float) -> None:
    told = question(arm, "What?", "--temperature", "0.7").stderr
    assert (f"{arm} ignores the temperature: its speculation is greedy" in told) == (sent == 0)
    assert FakeDeployment.s3.question["temperature"] == sent  # type: ignore[attr-defined]


def test_a_run_that_holds_nothing_is_not_asked_and_one_that_ends_is_not_waited_for(question: Any) -> None:
    Holding.gone_at = 1
    result = question("sd", "What?")
    assert result.exit_code == 2 and "--hold 30m" in result.stderr and FakeDeployment.s3.objects == {}
    Holding.gone_at, FakeDeployment.s3.parts = 3, []  # type: ignore[attr-defined]
    result = question("sd", "What?")
    assert result.exit_code == 1 and "r holds its arms no longer" in result.stderr and FakeDeployment.s3.objects == {}


def test_the_hold_is_ended_by_a_word(question: Any) -> None:
    result = question("--end")
    assert result.exit_code == 0 and list(FakeDeployment.s3.objects) == ["asks/r/end.json"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "rehearsal", "--hold", "90s", "--yes"), {"hold": 2}),
        (("run", "rehearsal", "--hold", "soon", "--yes"), "90s, 10m or 2h"),
        (("run", "rehearsal", "--hold", "9h", "--yes"), "must be 480 or less"),
        (("run", "--resume", "r", "--hold", "5m", "--yes"), "start a new one with --hold"),
    ],
)
def test_a_hold_is_asked_for_in_the_words_of_a_person(command: Any, words: tuple[str, ...], told: Any) -> None:
    result = command(*words)
    if isinstance(told, dict):
        assert result.exit_code == 0 and "hold      2 min" in result.output, result.output
        assert FakeDeployment.started[0][1]["set"] == told
    else:
        assert result.exit_code == 2 and told in " ".join(result.output.split())
        assert FakeDeployment.started == []
