"""A rehearsal as a process of its own, and what can be done to its processes."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from rehearsal import tools
from rehearsal.processes import processes_naming
from tests.patience import LONG_S


class Driver:
    """A rehearsal that a test started, and what it printed so far."""

    started: ClassVar[list[Driver]] = []
    """Those of this case."""

    def __init__(
        self,
        *,
        root: Path = tools.ROOT,
        environment: Mapping[str, str] | None = None,
        limit: tuple[int, int] | None = None,
    ) -> None:
        self.root, self.lines = root, list[str]()
        self.process = subprocess.Popen(
            [str(root / ".venv" / "bin" / "python"), "-m", "rehearsal"],
            cwd=root,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)) if limit else None,
        )
        self.started.append(self)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.decode("utf-8", "replace"))

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def until(self, pattern: str) -> None:
        deadline = time.monotonic() + LONG_S
        while not re.search(pattern, self.text):
            assert self.process.poll() is None, self.text
            assert time.monotonic() < deadline, self.text
            time.sleep(0.02)

    def ended(self, *, seconds: float = LONG_S) -> int:
        """Its exit status, once it and all that it started are gone."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"still there after {seconds} s:\n{self.text}") from None
        time.sleep(0.3)
        assert "Traceback" not in self.text, self.text
        return status


def end_all() -> list[int]:
    """End the rehearsals of this case, however it ended. Returns the processes that no rehearsal would have ended."""
    going = [driver for driver in Driver.started if driver.process.poll() is None]
    Driver.started.clear()
    for driver in going:
        os.killpg(driver.process.pid, signal.SIGKILL)
        driver.process.wait()
    left = processes_naming(runs())
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [] if going else left


def runs() -> Path:
    return tools.RUNS


def processes(wanted: bytes) -> list[int]:
    """Ids of this checkout's processes whose command line has `wanted`."""
    found = processes_naming(runs())
    return [pid for pid in found if wanted in read(Path(f"/proc/{pid}/cmdline"))]


def guardians() -> list[int]:
    """Its environment does not name the work folder, its arguments do."""
    found = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    wanted = b"rehearsal.guardian\0" + os.fsencode(runs())
    return [int(entry.name) for entry in found if wanted in read(entry / "cmdline")]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def signalled(wanted: bytes, number: int) -> Callable[[Driver], None]:
    def act(driver: Driver) -> None:
        [pid] = processes(wanted)
        os.kill(pid, number)

    return act


def interrupted(times: int = 1) -> Callable[[Driver], None]:
    def act(driver: Driver) -> None:
        for _ in range(times):
            os.killpg(driver.process.pid, signal.SIGINT)
            time.sleep(0.3)

    return act
