"""Which HTTP layer? `python benchmarks/client_http.py`

The same requests through aiohttp, through httptools and our own parser on asyncio's protocols, and through what the
client uses (our parser on sockets read with the kernel's time stamps); the same event parsing on top of each. A process
for each, taking turns. CPU per 100,000 chunks, CPU of the imports, and how much later than the promptest chunk of its
stream each chunk was timed. Layers that are not installed are left out. Writes benchmarks/results/client_http.json and
the table in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lambda"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.http_layers import layer
from benchmarks.publishing import publish, save

LAYERS = {
    "aiohttp": "aiohttp {}",
    "httptools": "httptools {} on an asyncio protocol",
    "protocol": "own parser on an asyncio protocol",
    "kernel": "**own parser, `recvmsg` with kernel time stamps**",
}
"""How the page calls them; `{}` is the version."""


def run_layer(name: str, url: str, streams: int, tokens: int) -> dict:
    """In a process of its own."""
    before = time.process_time()
    exchange = layer(name)
    imported = time.process_time() - before
    from specdecode.benchmark.answer import Answer
    from specdecode.benchmark.sse import SseParser

    from benchmarks.reference.processes import truth

    answers: dict[str, Answer] = {}

    async def one(number: int) -> None:
        prompt = f"request {number}"
        answer, sse = Answer(), SseParser()
        answers[prompt] = answer
        began = time.monotonic()

        def take(data: bytes, at: float) -> None:
            for event in sse.feed(data):
                answer.take(event, at - began)

        body = {"prompt": prompt, "max_tokens": tokens, "stream": True, "stream_options": {"include_usage": True}}
        await exchange(url, body, take)

    async def load() -> float:
        await one(-1)
        truth(url)
        began = time.process_time()
        await asyncio.gather(*(one(number) for number in range(streams)))
        return time.process_time() - began

    cpu = asyncio.run(load())
    return {"import_cpu_s": imported, "load_cpu_s": cpu, **errors(answers, truth(url))}


def errors(answers: dict, true: list[dict]) -> dict:
    import hashlib

    from specdecode.measures.distribution import quantile

    by_hash = {hashlib.sha256(prompt.encode()).hexdigest(): answer for prompt, answer in answers.items()}
    found = []
    for entry in true:
        times = [chunk[0] for chunk in by_hash[entry["prompt_sha256"]].chunks]
        delays = [at - sent for at, sent in zip(times, entry["sent_s"], strict=True)]
        found += [delay - min(delays) for delay in delays]
    found.sort()
    return {
        "chunks": len(found),
        "chunk_error_mean_ms": statistics.fmean(found) * 1000,
        "chunk_error_p99_ms": quantile(found, 0.99) * 1000,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=900)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layer", choices=LAYERS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.layer:
        print(json.dumps(run_layer(args.layer, args.url, args.streams, args.tokens)))
        return 0

    import tempfile

    from benchmarks.reference.processes import reference_server, run

    rows: dict[str, list[dict]] = {}
    for _ in range(args.rounds):
        for name in LAYERS:
            with reference_server() as url, tempfile.TemporaryDirectory() as folder:
                options = ["--layer", name, "--url", url, "--streams", args.streams, "--tokens", args.tokens]
                cost, output = run([sys.executable, Path(__file__).resolve(), *map(str, options)], cwd=Path(folder))
            if cost.code == 0:
                rows.setdefault(name, []).append(json.loads(output.splitlines()[-1]))
            elif "ModuleNotFoundError" not in output:
                raise RuntimeError(output)
    summary = {name: summed(found) for name, found in rows.items()}
    for name, figures in summary.items():
        print(f"{name:>10}: " + ", ".join(f"{key} {value:.3f}" for key, value in figures.items()))
    left_out = [name for name in LAYERS if name not in rows]
    versions = {name: version(name) for name in summary if "{}" in LAYERS[name]}
    document = {"streams": args.streams, "layers": summary, "left_out": left_out, "versions": versions}
    save("client_http", document)
    publish("client_http", table(document), page="benchmarks.md")
    return 0


def table(document: dict) -> str:
    """As the page prints it."""
    rows = [
        "| layer | CPU s / 100,000 chunks | import, CPU s | lateness ms: mean | p99 |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, found in document["layers"].items():
        title = LAYERS[name].format(document["versions"].get(name))
        rows.append(
            f"| {title} | {found['cpu_s_per_100000_chunks']:.1f} | {found['import_cpu_s']:.2f} "
            f"| {found['chunk_error_mean_ms']:.3f} | {found['chunk_error_p99_ms']:.3f} |"
        )
    return "\n".join(rows)


def summed(found: list[dict]) -> dict:
    """The median over the rounds."""

    def median(value: Callable[[dict], float]) -> float:
        return statistics.median(value(entry) for entry in found)

    return {
        "cpu_s_per_100000_chunks": median(lambda entry: entry["load_cpu_s"] / entry["chunks"] * 100_000),
        "import_cpu_s": median(lambda entry: entry["import_cpu_s"]),
        "chunk_error_mean_ms": median(lambda entry: entry["chunk_error_mean_ms"]),
        "chunk_error_p99_ms": median(lambda entry: entry["chunk_error_p99_ms"]),
    }


if __name__ == "__main__":
    sys.exit(main())
