"""Hostile servers and hostile files: none is recommended, none passes a gate, none brings a traceback, a hang, or more
memory than MOST_BYTES. Each command is a process of its own.
"""

import asyncio
import gzip
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

MOST_BYTES = 1 << 30
"""Of address space, with the 300 MiB that the interpreter and its libraries map."""
TOKENS = 8
Bytes = Iterator[bytes | float]
"""What a server sends, and the seconds that it waits."""


def event(text: str = "", **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": more.pop("finish", None)}
    return b"data: " + json.dumps({"id": "x", "model": "m", "choices": [choice], **more}).encode() + b"\n\n"


def usage(tokens: Any, **more: Any) -> bytes:
    return event(finish="length", usage={"prompt_tokens": 64, "completion_tokens": tokens, **more})


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def answer(word: str = "ab ", step_s: float = 0.004, end: bytes = usage(TOKENS) + DONE) -> Bytes:
    yield HEAD
    for _ in range(TOKENS):
        yield step_s
        yield event(word)
    yield end


def raw(*parts: bytes | float) -> Callable[[], Bytes]:
    return lambda: iter(parts)


def plain(status: str, body: bytes = b"", *headers: str) -> Callable[[], Bytes]:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers]
    return raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def fast(end: bytes, word: str = "ab ") -> Callable[[], Bytes]:
    """Twenty times as fast as the honest arm, with another end."""
    return lambda: answer(word, 0.0002, end)


def slow(end: bytes = usage(TOKENS) + DONE, word: str = "ab ") -> Callable[[], Bytes]:
    """Half as fast as the honest arm, so that it is never rightly used."""
    return lambda: answer(word, 0.008, end)


def endless() -> Bytes:
    yield HEAD
    while True:
        yield event("ab ") * 100


NUMBER, DEEP, HUGE = b"9" * 401, b"[" * 200_000, b"x" * (80 << 20)
SERVERS: dict[str, Callable[[], Bytes]] = {
    "ten times the tokens": fast(usage(10 * TOKENS) + DONE),
    "a billion tokens": fast(usage(10**9) + DONE),
    "fewer than no tokens": fast(usage(-5) + DONE),
    "tokens as a text": fast(usage("80") + DONE),
    "half a token": fast(usage(8.5) + DONE),
    "no tokens": fast(usage(0) + DONE),
    "no usage": fast(event(finish="length") + DONE),
    "usage without a count": fast(usage(None) + DONE),
    "hidden reasoning of more than all": fast(usage(80, completion_tokens_details={"reasoning_tokens": 10**6}) + DONE),
    "another text": fast(usage(TOKENS) + DONE, "other "),
    "empty answers": fast(usage(TOKENS) + DONE, ""),
    "all at once": lambda: iter([HEAD + event("ab ") * TOKENS + usage(TOKENS) + DONE]),
    "one chunk": lambda: iter([HEAD + event("ab " * TOKENS) + usage(TOKENS) + DONE]),
    "nothing but the end": raw(HEAD + DONE),
    "no end": fast(b""),
    "an error in the stream": fast(b'data: {"error": {"message": "\x1b[2Jboom"}}\n\n'),
    "a count of 401 digits": fast(b'data: {"choices": [], "usage": {"completion_tokens": ' + NUMBER + b"}}\n\n" + DONE),
    "no number": fast(b'data: {"choices": [], "usage": {"completion_tokens": NaN}}\n\n' + DONE),
    "deep nesting": fast(b"data: " + DEEP + b"\n\n" + DONE),
    "a line without end": raw(HEAD + b"data: " + HUGE),
    "an endless stream": endless,
    "silence": raw(HEAD, 60.0),
    "no answer": raw(60.0),
    "half a surrogate": slow(word="\ud800 "),
    "escapes": slow(word="\x1b[2J\x1b]52;c;eA==\x07 "),
    "markup": slow(word="<script>window.pwned=1</script> "),
    "a page": plain("200 OK", b"<html>log in</html>", "content-type: text/html"),
    "a bomb": plain("200 OK", gzip.compress(b"\0" * (64 << 20)), "content-encoding: gzip"),
    "a redirect": plain("302 Found", b"", "location: http://127.0.0.1:9/latest/meta-data"),
    "an error": plain("500 Internal Server Error", b"\x1b[31m" + b"x" * 100_000),
    "a refusal": plain("401 Unauthorized", b"{}"),
    "a wrong length": raw(HEAD.replace(b"connection", b"content-length: 999999\r\nconnection") + event("ab ")),
    "a wrong chunk": raw(HEAD.replace(b"connection", b"transfer-encoding: chunked\r\nconnection") + b"zz\r\nab"),
    "large headers": raw(b"HTTP/1.1 200 OK\r\n" + b"x-a: " + b"y" * (8 << 20) + b"\r\n\r\n"),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
}


class Hostile:
    """Two servers on one port each: the first is honest, the second answers as it is told."""

    def __init__(self) -> None:
        self.lie: Callable[[], Bytes] = answer
        self.ports: list[int] = []
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        assert started.wait(PATIENCE_S)

    def _run(self, started: threading.Event) -> None:
        async def listen() -> None:
            for lies in (False, True):
                server = await asyncio.start_server(lambda r, w, lies=lies: self._talk(r, w, lies), "127.0.0.1", 0)
                self.ports.append(server.sockets[0].getsockname()[1])
            started.set()

        self.loop.run_until_complete(listen())
        self.loop.run_forever()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lies: bool) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (h.split(b":")[1] for h in head.lower().split(b"\r\n") if h.startswith(b"content-length")), b"0"
            )
            await reader.readexactly(int(length))
            models = plain("200 OK", b'{"object": "list", "data": [{"id": "m", "object": "model"}]}')
            talk = (
                models if b"/models" in head else (self.lie if lies else answer) if b"POST" in head else plain("404 No")
            )
            for part in talk():
                if isinstance(part, float):
                    await asyncio.sleep(part)
                else:
                    writer.write(part)
                    await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    yield (found := Hostile())
    found.loop.call_soon_threadsafe(found.loop.stop)


def call(*words: object, cwd: Path) -> tuple[int, str]:
    """Exit code and all output of a command, which has no more than MOST_BYTES."""
    command = [str(Path(sys.executable).with_name("specdecode")), *map(str, words)]
    ended = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, errors="replace", check=False,
        env={**os.environ, "AWS_CONFIG_FILE": "none", "COLUMNS": "200", "MALLOC_ARENA_MAX": "2"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES)),
    )  # fmt: skip
    text = ended.stdout + ended.stderr
    assert "Traceback" not in text and "MemoryError" not in text and ended.returncode >= 0, text[-2000:]
    assert "\x1b[2J" not in text and "\x1b]52" not in text
    return ended.returncode, text


@pytest.mark.slow
@pytest.mark.parametrize("lie", SERVERS)
def test_a_hostile_server_is_never_used(hostile: Hostile, lie: str, tmp_path: Path) -> None:
    hostile.lie = SERVERS[lie]
    arms = [f"{name}=http://127.0.0.1:{port}" for name, port in zip(("base", "sd"), hostile.ports, strict=True)]
    load = ["--prompt", "a", "--requests", "4", "--output-tokens", TOKENS, "--timeout", "3", "--warmup", "0"]
    code, said = call("bench", *arms, *load, "--out", "out", cwd=tmp_path)
    assert "Use sd" not in said and code in (0, 1, 2)
    assert "Use sd" not in call("report", "out", cwd=tmp_path)[1]
    assert call("gate", "out", "--min-speedup", "1", cwd=tmp_path)[0] != 0
    assert call("winner", "out", cwd=tmp_path)[0] != 0


KEYS = json.dumps({f"key{n}": n for n in range(300_000)}).encode()
ONES = b"[" + b"1," * 2_000_000 + b"1]"
LAUGHS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]\n" for n in range(12)).encode()


def vllm(**fields: Any) -> bytes:
    """A result of `vllm bench serve` of four requests."""
    known = {"model_id": "m", "completed": 4, "duration": 4.0, "total_output_tokens": 32, "mean_ttft_ms": 100.0,
             "ttfts": [0.1] * 4, "itls": [[0.1] * 7] * 4, "output_lens": [8] * 4, "input_lens": [8] * 4,
             "errors": [""] * 4}  # fmt: skip
    return json.dumps({**known, **fields}).encode()


def guidellm(fields: bytes) -> bytes:
    return b'{"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": [{"duration": 1, ' + fields + b"}]}"


FILES: dict[str, tuple[str, bytes]] = {
    "unknown fields": ("out/report.json", KEYS),
    "wrong items": ("out/report.json", b'{"pairs": ' + ONES + b"}"),
    "deep": ("out/report.json", DEEP),
    "a long number": ("out/report.json", b'{"run_id": ' + NUMBER + b"}"),
    "no numbers": ("out/report.json", b'{"run_id": NaN, "arms": Infinity}'),
    "half a surrogate": ("out/report.json", b'{"run_id": "\\ud800"}'),
    "other characters": ("out/report.json", "{}".encode("utf-16")),
    "nothing": ("out/report.json", b""),
    "a list": ("out/report.json", b"[]"),
    "large": ("out/report.json", b" " * (65 << 20)),
    "a bomb": ("out/report.json", gzip.compress(b" " * (64 << 20))),
    "escapes": ("out/report.json", b'{"\x1b[2J": 1, "run_id": "\\u001b[2J"}'),
    "unknown fields of a benchmark": ("out/benchmark.json", KEYS),
    "wrong arms of a benchmark": ("out/benchmark.json", b'{"arms": ' + ONES[: 2**20 - 12] + b"1]}"),
    "wrong cases of a benchmark": ("out/benchmark.json", b'{"workload": {"cases": ' + ONES[: 2**20 - 30] + b"1]}}"),
    "wrong records": ("out/raw/a.jsonl", KEYS),
    "a long record": ("out/raw/a.jsonl", b'{"chunks": ' + ONES + b"}"),
    "import of unknown fields": ("sd.json", KEYS),
    "import of many settings": ("sd.json", KEYS[:-1] + b', "results_x": 1}'),
    "import of a list": ("sd.json", ONES),
    "import of deep lists": ("sd.json", DEEP),
    "import of wrong times": ("sd.json", vllm(ttfts=["x"] * 300_000)),
    "import of a long number": ("sd.json", vllm().replace(b"100.0", NUMBER)),
    "import of milliseconds": ("sd.json", vllm(ttfts=[1e-4] * 4, itls=[[1e-4] * 7] * 4)),
    "import of no time": ("sd.json", vllm(ttfts=[0.0] * 4, itls=[[1e-10] * 7] * 4)),
    "import of negative times": ("sd.json", vllm(ttfts=[-1.0] * 4)),
    "import of short lists": ("sd.json", vllm(itls=[])),
    "import of wrong requests": ("sd.json", guidellm(b'"requests": {"successful": ' + ONES + b"}")),
    "import of a far year": ("sd.json", guidellm(b'"start_time": 9e11, "requests": {"successful": []}')),
    "import of lines": ("sd/profile_export.jsonl", b"{}\n" * 300_000),
    "an experiment that grows": ("sd.yaml", LAUGHS),
    "a large experiment": ("sd.yaml", KEYS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_never_used(name: str, tmp_path: Path) -> None:
    place, content = FILES[name]
    (file := tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    if place.startswith("out/"):
        commands = [["report", "out"], ["gate", "out", "--min-speedup", "1"], ["winner", "out"]]
        if place.endswith("benchmark.json"):  # which is read only where there are records, or to go on
            (tmp_path / "out/raw").mkdir()
            (tmp_path / "out/raw/a.jsonl").write_text("{}\n")
            commands.append(["bench", "http://127.0.0.1:9", "--resume", "--out", "out"])
    elif place.endswith(".yaml"):
        commands = [["validate", "sd.yaml"]]
    else:
        (tmp_path / "base.json").write_bytes(vllm())
        (tmp_path / "sd/profile_export_aiperf.json").write_text("{}") if place.startswith("sd/") else None
        arms = ["base=base.json", f"sd={place.partition('/')[0]}"]
        code, said = call("import", *arms, "--out", "out", cwd=tmp_path)
        assert "Use sd" not in said and code in (0, 2)
        commands = [["gate", "out", "--min-speedup", "1"], ["winner", "out"]]
    for words in commands:
        code, said = call(*words, cwd=tmp_path)
        assert code != 0 and "Use sd" not in said, said


@pytest.mark.slow
def test_a_pipe_and_a_device_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    for name in ("pipe.json", "zero.json"):
        for words in (["report", name], ["import", f"base={name}", f"sd={name}"], ["prompts", "check", name]):
            code, said = call(*words, cwd=tmp_path)
            assert code == 2 and "pipe or a device" in said, said
