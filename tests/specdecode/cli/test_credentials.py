"""Keys that a person gives to the command line: what uses them never shows or stores them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from specdecode.benchmark.adhoc import BadRequest, endpoints_of
from specdecode.benchmark.endpoint import Endpoint
from specdecode.cli import app, runs_deployment
from typer.testing import CliRunner

from tests.canaries import API_KEY, CANARIES, HUGGING_FACE, WORD, files, traces
from tests.local_http import Handler, served

CHUNK = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
ANSWER = b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in (CHUNK, USAGE)) + b"data: [DONE]\n\n"


class Repeating(Handler):
    """Answers the probe, and then refuses the key that it repeats, whole, cut off, or in a body that is no JSON."""

    asked = 0

    def do_GET(self) -> None:
        self.reply(200 if self.path == "/v1/models" else 404, b'{"data": [{"id": "m"}]}')

    def do_POST(self) -> None:
        self.body()
        key = self.headers["Authorization"]
        type(self).asked += 1
        if type(self).asked == 1:
            self.reply(200, ANSWER, Content_Type="text/event-stream")
            return
        turn = type(self).asked % 4
        text = f"Incorrect API key provided: {key}"
        body = json.dumps({"error": {"message": ("x" * (500 - len(text) + 12) if turn == 1 else "") + text}}).encode()
        if turn == 2:
            self.reply(401, text.encode(), Content_Type="text/plain")
        elif turn == 3:
            self.reply(200, text.encode(), Content_Type="text/plain")
        else:
            self.reply(401, body, Content_Type="application/json")


@pytest.fixture
def repeating() -> Iterator[str]:
    Repeating.asked = 0
    with served(Repeating) as url:
        yield url


def invoke(*arguments: str, **options: object) -> tuple[int, dict[str, bytes]]:
    result = CliRunner().invoke(app, list(arguments), **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, {"stdout": result.stdout.encode(), "stderr": result.stderr.encode()}


def test_a_key_that_the_server_repeats_is_in_nothing_that_is_written(repeating: str, tmp_path: Path) -> None:
    arguments = ["bench", repeating, "--prompt", "hi", "--requests", "8", "--warmup", "0", "--output-tokens", "8"]
    code, said = invoke(*arguments, "--out", str(tmp_path / "out"), env={"OPENAI_API_KEY": API_KEY})
    assert code == 1
    written = files(tmp_path)
    records = [json.loads(line) for line in written["out/raw/base/prompt-1.jsonl"].splitlines()]
    assert {record["error"]["kind"] for record in records} == {"http", "protocol"}
    assert all("Incorrect API key" in record["error"]["message"] for record in records)
    assert traces(API_KEY, written | said) == []
    assert traces(API_KEY[:20], written | said) == []


def test_a_refusal_of_the_probe_does_not_repeat_the_key(repeating: str, tmp_path: Path) -> None:
    Repeating.asked = 3
    code, said = invoke(
        *("bench", repeating, "--prompt", "hi", "--out", str(tmp_path / "out")), env={"OPENAI_API_KEY": API_KEY}
    )
    assert code == 1
    assert b"Incorrect API key" in said["stderr"]
    assert traces(API_KEY, files(tmp_path) | said) == []


def test_an_endpoint_s_text_has_no_key() -> None:
    assert API_KEY not in repr(Endpoint.of("http://a", api_key=API_KEY))


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{API_KEY}@host:8000/v1",
        f"http://{API_KEY}@host",
        f"{API_KEY}@host",
        f"http://host/v1?api_key={API_KEY}",
        f"http://host/v1#{API_KEY}",
        f"sd=https://user:{API_KEY}@host",
    ],
)
def test_a_key_in_a_url_is_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    code, said = invoke("bench", url, "--out", str(tmp_path / "out"))
    assert code == 2
    assert b"OPENAI_API_KEY" in said["stderr"]
    assert traces(API_KEY, said) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ending", ["\n", "\r", " x", "é"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_repeated(ending: str) -> None:
    with pytest.raises(BadRequest, match="API key for http://a holds") as caught:
        endpoints_of(["http://a"], environ={"OPENAI_API_KEY": API_KEY + ending})
    assert WORD not in str(caught.value)


@pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES.keys())
def test_a_credential_in_a_prompt_is_refused(canary: str, tmp_path: Path) -> None:
    code, said = invoke("bench", "http://127.0.0.1:9", "--prompt", canary, "--out", str(tmp_path / "out"))
    assert code == 2
    assert b"workload.cases.0.text" in said["stderr"] or b"cases.0.text" in said["stderr"]
    assert traces(WORD * 2, said) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [("run",), ("validate",), ("plan",), ("manifests",)])
def test_a_token_never_leaves_this_machine(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_is_started(**_: object) -> None:
        raise AssertionError("AWS was reached")

    monkeypatch.setattr(runs_deployment, "Deployment", nothing_is_started)
    path = tmp_path / "experiment.yaml"
    path.write_text(f"extends: rehearsal\nserving:\n  env:\n    HF_TOKEN: {HUGGING_FACE}\n")
    for arguments in ((str(path),), ("rehearsal", "--set", f"description={HUGGING_FACE}")):
        code, said = invoke(*command, *arguments)
        assert code == 2
        assert b"looks like a Hugging Face token" in said["stdout"] + said["stderr"]
        assert traces(HUGGING_FACE, said) == []
