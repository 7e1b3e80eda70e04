"""A server with VLLM_API_KEY, as in a serving pod: which requests it answers, and how it refuses the others."""

import http.client
from collections.abc import Iterator

import pytest
from specdecode import names
from specdecode.exit_codes import Exit
from specdecode.pod import smoke
from specdecode.pod.program import PodError

from tests.patience import PATIENCE_S

from .conftest import Served, serve

KEY = "canary-8d1f0c7e5b"
OWN = names.api_key_variable("base")


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    with serve(environment={"VLLM_API_KEY": KEY}) as served:
        yield served
        assert served.stop() == 0
        assert served.process.stderr is not None
        assert KEY not in served.process.stderr.read()


def test_without_the_key_nothing_of_v1_answers_and_probes_do(guarded: Served) -> None:
    body = {"model": "pair", "prompt": "x", "max_tokens": 2}
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/completions"), ("POST", "/v1/chat/completions")):
        status, answer = guarded.request(method, path, body)
        assert (status, answer) == (401, {"error": "Unauthorized"})  # as vLLM says it
    assert [guarded.request("GET", path)[0] for path in ("/health", "/metrics")] == [200, 200]
    assert asked(guarded, f"Bearer {KEY}") == 200
    assert [asked(guarded, given) for given in ("Bearer other", KEY, f"Bearer {KEY}x", "Bearer ")] == [401] * 4


def asked(served: Served, authorization: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    connection.request("GET", "/v1/models", headers={"Authorization": authorization})
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_smoke_test_sends_the_arm_s_key(guarded: Served, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    arguments = ["--model", "pair", "--endpoint", "completions", "--arm", f"base=http://127.0.0.1:{guarded.port}"]
    monkeypatch.setenv(OWN, KEY)
    smoke.main(arguments)
    monkeypatch.setenv(OWN, "wrong")
    with pytest.raises(PodError, match="base: HTTP 401") as caught:
        smoke.main(arguments)
    assert caught.value.code == Exit.BAD_ANSWER
    assert KEY not in capsys.readouterr().out
