"""How times, memory and processes are measured, and a row that is noted."""

import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 2**20
Note = Callable[[str, str, str], None]
"""Takes a row: what was thrown at it, what was measured, what held."""


def spread(seconds: list[float]) -> str:
    """`p50 1.2 ms, p99 3.4 s`."""
    found = sorted(seconds)
    chosen = {q: found[min(len(found) - 1, len(found) * q // 100)] for q in (50, 99)}
    return ", ".join(f"p{q} {s:.1f} s" if s > 1 else f"p{q} {s * 1000:.1f} ms" for q, s in chosen.items())


def timed(call: Callable[[], Any], times: int) -> list[float]:
    took = []
    for _ in range(times):
        begun = time.monotonic()
        call()
        took.append(time.monotonic() - begun)
    return took


def rss_mib(pid: int | str) -> float:
    """Resident memory of a process now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def alone(function: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """What `function` answers in a process of its own, and under `peak_mib` that process' largest memory."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_answer, args=(theirs, function, given))
    child.start()
    theirs.close()  # else nobody tells the end of a child that fails
    answer = ours.recv()
    child.join()
    return dict(answer)


def _answer(pipe: Any, function: Callable[..., dict[str, Any]], given: tuple[Any, ...]) -> None:
    answer = function(*given)
    pipe.send(answer | {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024})
