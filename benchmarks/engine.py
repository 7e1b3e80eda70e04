"""Does speculation pay on the embedded engine? Pass or fail, through HTTP: `python benchmarks/engine.py --help`.

Two servers with equal flags but for the draft model, one thread each, take turns: base, speculation, base, ... so
that whatever else the machine does hits both. Per case: output throughput = completion tokens of the server's usage /
seconds from sending the request to the end of its stream; the speed-up is the ratio of the medians. Every structured
case has the floor; open-ended ones are reported without one. Outputs must be identical in both arms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "rehearsal" / "engine" / "weights"
FLOOR = 1.5
CONCURRENCY = (1, 4)

STRUCTURED = {
    "repeat line": "Repeat the following line exactly 20 times:\nThe quick brown fox jumps over the lazy dog\n\n",
    "counting": "Count from 1 to 200:\n1\n2\n3\n4\n",
    "JSON": "Write 20 JSON records, one per line:\n"
    '{"id": 1, "name": "user1", "role": "admin", "active": true}\n'
    '{"id": 2, "name": "user2", "role": "admin", "active": true}\n',
    "code skeleton": "Write Python functions:\ndef test_value_1():\n    assert value(1) == 1\n\n",
    "hello world": "Repeat hello world 50 times:\nhello world hello world ",
    "list": "List:\n1. apple 1\n2. apple 2\n",
}
OPEN_ENDED = {
    "story": "Write a short story.\nOnce upon a time, in a small village by the sea, there lived",
    "sonnet": "Write a sonnet:\nShall I compare thee to a",
    "explanation": "Explain water in simple words.\n",
    "prose": "The operating system gives every process its own address space, so a program that reads a file",
    "reference": "Return a new list of the items for which the function is true. If the argument is",
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One load of one case on one arm."""

    tokens: int
    chunks: int
    seconds: float
    texts: tuple[str, ...]

    @property
    def throughput(self) -> float:
        """Output tokens per second over all streams."""
        return self.tokens / self.seconds


async def main() -> int:
    arguments = _arguments()
    with ExitStack() as stack:
        urls = {arm: _start(stack, arm, arguments) for arm in ("base", "speculation")}
        async with aiohttp.ClientSession() as session:
            for url in urls.values():
                await _ready(session, url)
            rows = [
                await _measure(session, urls, arguments, name=name, prompt=prompt, concurrency=concurrency)
                for concurrency in CONCURRENCY
                for name, prompt in (STRUCTURED | OPEN_ENDED).items()
            ]
    failures = [
        f"{row['case']} at concurrency {row['concurrency']}: "
        + (f"{row['speedup']:.2f}x" if row["identical"] else "outputs differ")
        for row in rows
        if not row["identical"] or (row["structured"] and row["concurrency"] == 1 and row["speedup"] < FLOOR)
    ]
    result = {
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load_average": os.getloadavg(),
        "k": arguments.k,
        "output_tokens": arguments.tokens,
        "repetitions": arguments.repetitions,
        "floor": FLOOR,
        "passed": not failures,
        "rows": rows,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{'PASS' if not failures else 'FAIL: ' + '; '.join(failures)} (floor {FLOOR}x on structured cases)")
    return 1 if failures else 0


async def _measure(session: Any, urls: dict[str, str], arguments: Any, *, name: str, prompt: str, concurrency: int):
    runs: dict[str, list[Run]] = {arm: [] for arm in urls}
    counters = {arm: await _speculation(session, url) for arm, url in urls.items()}
    for repetition in range(arguments.repetitions + 1):
        for arm in sorted(urls, reverse=repetition % 2 == 1):
            run = await _load(session, urls[arm], prompt, arguments.tokens, concurrency)
            if repetition > 0:  # the first of each is the warm-up
                runs[arm].append(run)
    drafts, drafted, accepted = (
        after - before
        for after, before in zip(await _speculation(session, urls["speculation"]), counters["speculation"], strict=True)
    )
    median = {arm: statistics.median(run.throughput for run in items) for arm, items in runs.items()}
    pairs = [
        speculation.throughput / base.throughput
        for base, speculation in zip(runs["base"], runs["speculation"], strict=True)
    ]
    row = {
        "case": name,
        "structured": name in STRUCTURED,
        "concurrency": concurrency,
        "base_tokens_per_s": round(median["base"], 1),
        "speculation_tokens_per_s": round(median["speculation"], 1),
        "speedup": round(median["speculation"] / median["base"], 3),
        "speedup_range": [round(min(pairs), 3), round(max(pairs), 3)],
        "acceptance": round(accepted / drafted, 3),
        "tokens_per_step": round(1 + accepted / drafts, 2),
        "identical": len({text for items in runs.values() for run in items for text in run.texts}) == 1,
        "output": runs["base"][0].texts[0][:160],
    }
    if row["case"] == next(iter(STRUCTURED)):
        print(
            f"\nconcurrency {concurrency}\n| case | base tok/s | k={arguments.k} tok/s "
            "| speed-up | acceptance | tokens/step |"
        )
        print("|---|---|---|---|---|---|")
    print(
        f"| {name}{'' if row['structured'] else ' (open)'} | {row['base_tokens_per_s']:.0f} "
        f"| {row['speculation_tokens_per_s']:.0f} | {row['speedup']:.2f} [{min(pairs):.2f}-{max(pairs):.2f}] "
        f"| {row['acceptance']:.2f} | {row['tokens_per_step']:.1f} |",
        flush=True,
    )
    return row


async def _load(session: Any, url: str, prompt: str, tokens: int, concurrency: int) -> Run:
    started = time.perf_counter()
    answers = await asyncio.gather(*(_request(session, url, prompt, tokens) for _ in range(concurrency)))
    seconds = time.perf_counter() - started
    return Run(
        tokens=sum(answer[0] for answer in answers),
        chunks=sum(answer[1] for answer in answers),
        seconds=seconds,
        texts=tuple(answer[2] for answer in answers),
    )


async def _request(session: Any, url: str, prompt: str, tokens: int) -> tuple[int, int, str]:
    body = {
        "model": "pair",
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    text, chunks, completion = "", 0, 0
    async with session.post(f"{url}/v1/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            chunks += len(event["choices"])
            text += "".join(choice["text"] for choice in event["choices"])
            completion = (event.get("usage") or {}).get("completion_tokens", completion)
    return completion, chunks, text


async def _speculation(session: Any, url: str) -> tuple[int, int, int]:
    """Drafts, drafted tokens and accepted tokens so far, by the server's counters."""
    async with session.get(f"{url}/metrics") as response:
        page = await response.text()
    found = dict(re.findall(r"^vllm:spec_decode_num_(\w+)_total\{[^}]*?\} (\S+)$", page, re.MULTILINE))
    return tuple(int(float(found.get(name, 0))) for name in ("drafts", "draft_tokens", "accepted_tokens"))


def _start(stack: ExitStack, arm: str, arguments: Any) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, ROOT / "rehearsal" / "engine" / "vllm", "serve", WEIGHTS / "pair-target"]
    command += ["--served-model-name", "pair", "--port", str(port), "--max-num-seqs", "4"]
    if arm == "speculation":
        speculative = {"model": str(WEIGHTS / "pair-draft"), "num_speculative_tokens": arguments.k}
        command += ["--speculative-config", json.dumps(speculative)]
    environment = {name: value for name, value in os.environ.items() if name != "NEURON_COMPILED_ARTIFACTS"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return f"http://127.0.0.1:{port}"


async def _ready(session: Any, url: str) -> None:
    for _ in range(200):
        try:
            async with session.get(f"{url}/health") as response:
                if response.status == 200:
                    return
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(0.1)
    raise SystemExit(f"{url} did not become healthy within 20 s")


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, default=7, help="speculative tokens per step")
    parser.add_argument("--tokens", type=int, default=256, help="output tokens per request")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "engine.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
