"""Processes of a benchmark: the reference server, and a client whose CPU time and memory are taken from the kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Cost:
    """What a process and its children took."""

    cpu_s: float
    wall_s: float
    max_rss_mb: float
    code: int


@contextmanager
def reference_server(*arguments: str) -> Iterator[str]:
    """Yields the URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.reference.server", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def truth(url: str) -> list[dict]:
    """What the server sent since this was last asked."""
    with urllib.request.urlopen(f"{url}/truth", timeout=30) as answer:
        return json.load(answer)


def run(
    command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 600
) -> tuple[Cost, str]:
    """Run a command to its end: its cost, and what it printed."""
    log = cwd / "output.txt"
    began = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = began + timeout_s
        while True:
            found, status, usage = os.wait4(process.pid, os.WNOHANG)
            if found:
                break
            if time.monotonic() > deadline:
                os.killpg(process.pid, 9)
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
    cost = Cost(
        cpu_s=usage.ru_utime + usage.ru_stime,
        wall_s=time.monotonic() - began,
        max_rss_mb=usage.ru_maxrss / 1024,
        code=process.returncode,
    )
    return cost, log.read_text()
