"""How programs end: one line and a code of the table; the smoke test and the token beside it."""

import errno
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from specdecode.exit_codes import PERMANENT, Exit
from specdecode.pod import accuracy, smoke, sources
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import PodArm, PodError, run

from tests.local_http import Handler, served
from tests.specdecode.steps.aws_fake import FakeS3


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (PodError(Exit.NOT_FOUND, "no such\nmodel"), 68, "specdecode: error 68: no such model\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 73, "the local disk is full"),
        (None, 0, ""),
    ],
)
def test_one_line_and_a_code(capsys, raised, code, says):
    def main(_):
        if raised:
            raise raised

    with pytest.raises(SystemExit) as ended:
        run(main)
    assert ended.value.code == code
    assert says in capsys.readouterr().err


def test_an_unknown_failure_is_not_hidden():
    def main(_):
        raise OSError(errno.EIO, "bad disk")

    with pytest.raises(OSError, match="bad disk"):
        run(main)


def test_codes_keep_clear_of_the_shell_and_of_each_other():
    """BAD_SPECIFICATION is the code of every command of ours for wrong input, and a Job's pod runs one of them."""
    assert all(64 <= code <= 79 for code in Exit if code not in (Exit.OK, Exit.BAD_SPECIFICATION))
    assert Exit.SERVER_EXITED not in PERMANENT and Exit.UNAVAILABLE not in PERMANENT


@pytest.mark.parametrize("module", ["stage", "compile", "smoke", "accuracy", "neuron_metrics"])
def test_programs_need_no_library_but_boto3(module):
    """Engine images have other versions of Python than the bundle's compiled dependencies."""
    forbidden = ("pydantic", "yaml", "aiohttp", "jinja2", "typer", "specdecode.experiment")
    code = f"import sys, specdecode.pod.{module}; print([m for m in {forbidden!r} if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_what_runs_in_an_engines_container_needs_python_alone():
    """No Dockerfile of the newest engine was to be had: whether its image has boto3 is not known."""
    code = "import sys, specdecode.pod.compile; print([m for m in ('boto3', 'botocore') if m in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


@pytest.fixture
def server():
    """An OpenAI-compatible server that answers with `server.answer`, and every second time with `server.second`."""

    own = SimpleNamespace(asked=[], keys=[], second=None)

    class Answering(Handler):
        def do_POST(self):
            own.asked.append((self.path, json.loads(self.body())))
            own.keys.append(self.headers["Authorization"])
            status, body = (len(own.asked) % 2 == 0 and own.second) or own.answer
            elsewhere = {"Location": f"{own.url}/elsewhere"} if status == 302 else {}
            self.reply(status, json.dumps(body).encode(), **elsewhere)

        do_GET = do_POST

    with served(Answering) as own.url:
        yield own


GOOD = {"choices": [{"message": {"content": " 4, 5"}}], "usage": {"completion_tokens": 8}}


def ask(server, endpoint="chat"):
    arms = ["--arm", f"base={server.url}", "--arm", f"sd={server.url}/", "--arm-model", "sd=other"]
    smoke.main(["--model", "m", "--endpoint", endpoint, *arms])


def test_smoke_asks_every_arm_greedily(server, capsys):
    server.answer = (200, GOOD)
    ask(server)
    assert [path for path, _ in server.asked] == ["/v1/chat/completions"] * 2
    assert [(body["temperature"], body["model"]) for _, body in server.asked] == [(0, "m"), (0, "other")]
    assert "sd answers: 8 tokens" in capsys.readouterr().out
    server.answer = (200, {"choices": [{"text": "4"}], "usage": {"completion_tokens": 1}})
    ask(server, "completions")
    assert server.asked[-1][0] == "/v1/completions" and "prompt" in server.asked[-1][1]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((500, {"error": "no"}), "HTTP 500"),
        ((200, {"choices": [{"text": ""}], "usage": {"completion_tokens": 1}}), "empty answer"),
        ((200, {"choices": [{"text": "x"}]}), "lacks 'usage'"),
        ((200, {"choices": []}), "lacks"),
        ((200, []), "lacks"),
    ],
)
def test_smoke_names_every_arm_that_failed(server, answer, says):
    server.answer = answer
    with pytest.raises(PodError, match=says) as caught:
        ask(server)
    assert caught.value.code == Exit.BAD_ANSWER
    assert "base: " in str(caught.value) and "sd: " in str(caught.value)


def test_smoke_gives_each_arm_its_own_key_and_tells_it_to_nobody(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "common-key")
    monkeypatch.setenv("OPENAI_API_KEY_SD_K7", "own-key")
    server.answer = (200, GOOD)
    arms = ["--arm", f"base={server.url}", "--arm", f"sd-k7={server.url}/v1"]
    smoke.main(["--model", "m", "--endpoint", "chat", *arms])
    assert server.keys == ["Bearer common-key", "Bearer own-key"]
    server.answer = (401, {"error": "own-key and common-key are wrong"})
    with pytest.raises(PodError) as caught:
        smoke.main(["--model", "m", "--endpoint", "chat", *arms])
    assert 'base: HTTP 401: {"error": "own-key and … are wrong"}' in str(caught.value)
    assert 'sd-k7: HTTP 401: {"error": "… and common-key are wrong"}' in str(caught.value)


LONGEST = {
    "name": "triage/novel",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "once upon a time"}],
    "text": "Be brief.\nonce upon a time",
    "answer": 100,
    "room": 1024,
    "thinking": False,
}


def send(server, tmp_path, endpoint="chat", **changes):
    (tmp_path / "prompt.json").write_text(json.dumps(LONGEST | changes))
    arms = ["--arm", f"base={server.url}", "--arm", f"sd={server.url}"]
    smoke.main(["--model", "m", "--endpoint", endpoint, "--longest", str(tmp_path / "prompt.json"), *arms])


def test_smoke_sends_every_arm_the_longest_prompt_once(server, tmp_path, capsys):
    usage = {"completion_tokens": 1, "prompt_tokens": 924}
    server.answer = (200, {"choices": [{"message": {"content": "4"}}], "usage": usage})
    send(server, tmp_path)
    assert [body["max_tokens"] for _, body in server.asked] == [8, 1, 8, 1]
    body = server.asked[1][1]
    assert [message["content"] for message in body["messages"]] == ["Smoke: Be brief.", "once upon a time"]
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "sd takes the longest prompt, triage/novel: 924 tokens" in capsys.readouterr().out
    send(server, tmp_path, "completions", thinking=None)
    assert server.asked[-1][1]["prompt"] == "Smoke: Be brief.\nonce upon a time"


@pytest.mark.parametrize(("counted", "room", "fits"), [(931, 1024, True), (932, 1024, False), (932, None, True)])
def test_smoke_ends_a_run_whose_longest_prompt_has_no_room_for_its_answer(server, tmp_path, counted, room, fits):
    """The server counts the word before the prompt too: seven tokens at most."""
    usage = {"completion_tokens": 1, "prompt_tokens": counted}
    server.answer = (200, {"choices": [{"message": {"content": "4"}}], "usage": usage})
    if fits:
        return send(server, tmp_path, room=room)
    with pytest.raises(
        PodError, match=r"triage/novel has at least 925 tokens, with 100 .* 1025: max_model_len is 1024"
    ):
        send(server, tmp_path, room=room)


def test_smoke_names_the_prompt_that_an_arm_refuses(server, tmp_path):
    server.answer, server.second = (200, GOOD), (400, {"error": "too long"})
    with pytest.raises(PodError, match=r"base: it does not take the longest prompt, triage/novel: HTTP 400.*; sd: it"):
        send(server, tmp_path)


def test_smoke_is_told_what_it_sends(server, tmp_path):
    (tmp_path / "prompt.json").write_text("{}")
    with pytest.raises(PodError) as refused:
        smoke.main(["--model", "m", "--endpoint", "chat", "--longest", str(tmp_path / "prompt.json"), "--arm", "a=b"])
    assert refused.value.code == Exit.BAD_SPECIFICATION


def test_smoke_follows_no_redirect(server):
    server.answer = (302, {})
    with pytest.raises(PodError, match="base: HTTP 302"):
        ask(server)
    assert len(server.asked) == 2, "one request to each arm, none to where it points"


def test_smoke_names_an_arm_whose_answer_is_cut(monkeypatch):
    class Cut(Handler):
        def do_POST(self):
            self.body()
            self.reply(200, b"ff\r\n{", Transfer_Encoding="chunked")
            self.close_connection = True

        do_GET = do_POST

    monkeypatch.setattr(smoke, "REACHABLE_WITHIN_S", 0)
    with served(Cut) as url, pytest.raises(PodError, match="base: not reachable: IncompleteRead"):
        smoke.main(["--model", "m", "--endpoint", "chat", "--arm", f"base={url}"])


def test_smoke_gives_up_on_an_address_where_nobody_is(monkeypatch):
    monkeypatch.setattr(smoke, "REACHABLE_WITHIN_S", 0)
    with pytest.raises(PodError, match="not reachable"):
        smoke.main(["--model", "m", "--endpoint", "chat", "--arm", "base=http://127.0.0.1:9"])


def test_token_comes_from_the_environment_or_the_secret(monkeypatch):
    class Secrets:
        def get_secret_value(self, SecretId):
            if SecretId != "specdecode/huggingface-token":
                raise RuntimeError("AccessDenied")
            return {"SecretString": "from-secret\n"}

    monkeypatch.setattr(sources.aws, "client", lambda service: Secrets())
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HF_TOKEN_SECRET", raising=False)
    assert sources.hub_token() is None
    monkeypatch.setenv("HF_TOKEN_SECRET", "specdecode/huggingface-token")
    assert sources.hub_token() == "from-secret"
    monkeypatch.setenv("HF_TOKEN", "from-env")
    assert sources.hub_token() == "from-env"
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN_SECRET", "other")
    with pytest.raises(PodError) as caught:
        sources.hub_token()
    assert caught.value.code == Exit.NO_TOKEN


def test_accuracy_runs_the_pinned_tool_on_every_arm_and_uploads_its_results(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "common")
    monkeypatch.setenv("OPENAI_API_KEY_SD", "own")
    s3, commands, keys = FakeS3(), [], []

    def ran(command, env, check):
        commands.append(command)
        keys.append(env.get("OPENAI_API_KEY"))
        assert "PYTHONPATH" not in env
        if "--output_path" in command:
            folder = tmp_path / command[command.index("--output_path") + 1]
            (folder / "m").mkdir(parents=True)
            (folder / "m" / "results_2026.json").write_text('{"results": {}}')
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(accuracy.subprocess, "run", ran)
    monkeypatch.setattr(accuracy, "Bucket", lambda name: Bucket(name, s3))
    arguments = ["--bucket", "b", "--prefix", "runs/r/accuracy/", "--model", "m"]
    accuracy.main([*arguments, "--arm", "base=http://a:1", "--arm", "sd=http://b:1"])
    assert sorted(s3.objects) == ["runs/r/accuracy/base.json", "runs/r/accuracy/sd.json"]
    assert "lm-eval[api]==0.4.13" in commands[1]
    evaluated = [" ".join(map(str, c)) for c in commands[2:]]
    assert all("--tasks gsm8k --num_fewshot 0 --limit 50" in c and "temperature=0" in c for c in evaluated)
    assert "base_url=http://b:1/v1/completions" in evaluated[1]
    assert keys[-2:] == ["common", "own"]
    assert "own" not in str(commands[-1]).split()


def test_accuracy_fails_with_the_code_of_what_failed(monkeypatch, tmp_path):
    failed = subprocess.CompletedProcess([], 2)
    monkeypatch.setattr(accuracy.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(PodError) as caught:
        accuracy.install(tmp_path / "e")
    assert caught.value.code == Exit.UNAVAILABLE
    with pytest.raises(PodError) as caught:
        accuracy.evaluate(tmp_path, PodArm("a", "http://a", "m", None), tmp_path, concurrency=1)
    assert caught.value.code == Exit.BAD_ANSWER
