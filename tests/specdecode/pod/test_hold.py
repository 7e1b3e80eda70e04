"""The pod that answers questions to held arms, with a server that streams."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from specdecode import s3_keys
from specdecode.pod import hold
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import Exit, PodArm, PodError
from specdecode.records.asks import MOST_BYTES, AskPart

from tests.local_http import Handler, served
from tests.patience import until
from tests.specdecode.steps.aws_fake import FakeS3
from tests.untrusted.hostile import EVERYTHING

KEY = "key-of-the-arm"
SAYS = ["Machine ", "learning \x1b[2J", "is …"]


class Server(Handler):
    """Answers a prompt word by word; some prompts otherwise."""

    asked: list[dict[str, Any]] = []  # noqa: RUF012
    go_on = threading.Event()

    def do_POST(self) -> None:
        body = json.loads(self.body())
        self.asked.append({"path": self.path, "key": self.headers["Authorization"], **body})
        if body["prompt"] == "refuse":
            return self.reply(400, json.dumps({"error": {"message": f"too long; {KEY}"}}).encode())
        if body["prompt"] == "cut the error":
            return self._cut(400)
        if body["prompt"] == "cut":
            return self._cut(200)
        self.send_response(200)
        self.end_headers()
        for number, text in enumerate(SAYS):
            self._event({"choices": [{"text": text, "finish_reason": "length" if number == 2 else None}]})
            if number == 0:
                self.go_on.wait(10)
            if body["prompt"] == "break":
                return
        self._event({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 9}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _cut(self, status: int) -> None:
        """One whole chunk, and a part of another."""
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        event = b"data: " + json.dumps({"object": "text_completion", "choices": [{"text": SAYS[0]}]}).encode() + b"\n\n"
        self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"%x\r\n%b" % (len(event), event[:20]))

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps({"object": "text_completion", **event}).encode() + b"\n\n")
        self.wfile.flush()


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(hold, "POLL_S", 0.01)
    monkeypatch.setattr(hold, "EVERY_S", 0.0)
    Server.asked, Server.go_on = [], threading.Event()
    with served(Server) as url:
        yield url


class Held:
    def __init__(self, url: str, objects: dict[str, bytes]) -> None:
        self.s3, self.stopped = FakeS3(objects), threading.Event()
        arms, given = {"sd": PodArm("sd", url, "m", KEY)}, {"endpoint": "completions", "stopped": self.stopped}
        self._pod = threading.Thread(
            target=lambda: hold.serve(Bucket("b", self.s3), s3_keys.asks_prefix("r"), arms, **given)
        )
        self._pod.start()

    def parts(self, folder: str = "1") -> list[AskPart]:
        keys = sorted(key for key in self.s3.objects if key.startswith(f"asks/r/{folder}/0"))
        return [AskPart.model_validate_json(self.s3.objects[key]) for key in keys]

    def answer(self) -> list[AskPart]:
        try:
            until(lambda: self.parts() and self.parts()[-1].done)
        finally:
            self.end()
        return self.parts()

    def end(self) -> None:
        self.stopped.set()
        self._pod.join(20)
        assert not self._pod.is_alive()


def question(prompt: str = "What?", **changes: Any) -> bytes:
    return json.dumps({"arm": "sd", "prompt": prompt, "max_tokens": 9, "temperature": 0.5, **changes}).encode()


def test_an_answer_comes_in_parts_the_question_is_gone_and_the_log_has_neither(
    arm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Held(arm, {"asks/r/1/question.json": question("What is it?" + EVERYTHING)})
    until(lambda: len(held.parts()) == 1)
    assert held.parts()[0] == AskPart(text=SAYS[0]), "it is there while the server goes on"
    assert "asks/r/1/question.json" not in held.s3.objects
    Server.go_on.set()
    parts = held.answer()
    assert "".join(part.text for part in parts) == "".join(SAYS)
    assert (parts[-1].tokens, parts[-1].finish_reason, parts[-1].error) == (9, "length", "")
    (asked,) = Server.asked
    assert (asked["path"], asked["key"], asked["temperature"]) == ("/v1/completions", f"Bearer {KEY}", 0.5)
    logged = capsys.readouterr().out
    assert "answered in" in logged and "What is it" not in logged and "Machine" not in logged


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (question("refuse"), "HTTP 400: too long; …"),
        (question("break"), "the server broke off"),
        (question("cut"), "the server broke off: IncompleteRead"),
        (question("cut the error"), "HTTP 400"),
        (question(arm="base"), "no arm base is held, but sd"),
        (question("x" * MOST_BYTES), "at most 64 KiB"),
        (question(max_tokens=10**6), "no question"),
        (b"\x00{", "no question"),
    ],
)
def test_what_has_no_answer_says_why_and_shows_no_key(arm: str, document: bytes, told: str) -> None:
    Server.go_on.set()
    last = Held(arm, {"asks/r/1/question.json": document}).answer()[-1]
    assert told in last.error and KEY not in last.error and last.done


@pytest.mark.parametrize(
    ("error", "told"),
    [(PodError(Exit.UNAVAILABLE, "S3 is away"), "S3 is away"), (KeyError("Machine"), "KeyError")],
)
def test_a_failure_of_its_own_is_in_the_last_part_and_the_log(
    arm: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, told: str
) -> None:
    def breaks(*_: object, **__: object) -> Iterator[AskPart]:
        yield AskPart(text=SAYS[0])
        raise error

    monkeypatch.setattr(hold, "_parts", breaks)
    parts = Held(arm, {"asks/r/1/question.json": question()}).answer()
    assert parts == [AskPart(text=SAYS[0]), AskPart(done=True, error=told)]
    assert f"a question has no answer: {told}\n" in capsys.readouterr().out


def test_it_ends_when_somebody_ends_it_and_forgets_what_was_not_asked(arm: str) -> None:
    held = Held(
        arm, {"asks/r/end.json": b"{}", "asks/r/1/question.json": question(), "asks/other/1/question.json": b""}
    )
    began = time.monotonic()
    held._pod.join(20)
    assert not held._pod.is_alive() and time.monotonic() - began < 20
    assert list(held.s3.objects) == ["asks/other/1/question.json"] and Server.asked == []


def test_stopped_arms_end_an_answer_that_goes_on(arm: str) -> None:
    held = Held(arm, {"asks/r/1/question.json": question()})
    until(lambda: len(held.parts()) == 1)
    held.stopped.set()
    Server.go_on.set()
    assert held.answer()[-1].error == "the arms were stopped"
