"""Child processes of a rehearsal. Each has a process group of its own. None outlives the rehearsal, however it ends.

A process belongs to a rehearsal if its environment names the rehearsal's work folder. Children inherit the environment,
so a child that detaches itself is found too.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

GRACE_S = 10.0
"""Seconds between SIGTERM and SIGKILL."""

SETTLE_S = 2.0
"""Seconds after a child's end in which its own children may end by themselves."""


class ChildFailed(Exception):
    """A child ended with an error, or a server ended. The message has the last lines of its log."""


@dataclass(kw_only=True)
class Child:
    """A started process and its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def tail(self) -> str:
        """The last 15 lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def check(self) -> None:
        """Raise ChildFailed if the child has ended."""
        if not self.running:
            raise self.failure(f"ended {_how(self.process.returncode)}")

    def silent_s(self) -> float:
        """Seconds since the child last wrote to its log."""
        return max(time.time() - self.log.stat().st_mtime, 0.0)

    def wait(self, *, timeout_s: float) -> None:
        """Wait until the child ends with status 0. Raises ChildFailed on another status, or after `timeout_s`
        seconds.
        """
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not finish within {timeout_s:.0f} s") from None
        if status:
            raise self.failure(f"failed {_how(status)}")

    def failure(self, what: str) -> ChildFailed:
        """The error: what happened, the last lines of the log, and the log's path."""
        return ChildFailed(f"{self.name} {what}:\n{self.tail()}\nAll of it: {self.log}")


@dataclass(kw_only=True)
class Processes:
    """The children of one rehearsal. Leaving the `with` block ends them all. If the rehearsal is killed, the guardian
    ends them.
    """

    folder: Path
    """The work folder, which every child's environment names. Logs go to `<folder>/logs`."""
    root: Path
    """Working directory: the repository."""
    _children: list[Child] = field(default_factory=list)
    _guardian: subprocess.Popen[bytes] | None = None
    _owned: int | None = None
    """Descriptor of the work folder. It is locked as long as this process lives; children do not inherit it."""

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        directory: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Child:
        """Start a child with `environment` only (and TMPDIR in the work folder). Its stdin is empty, its output goes to
        its log.

        It runs in `directory`, or the repository.
        """
        log = self.folder / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(part) for part in command],
                cwd=directory or self.root,
                env={**environment, "TMPDIR": str(scratch)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        child = Child(name=name, process=process, log=log)
        self._children.append(child)
        return child

    def left(self) -> list[int]:
        """Ids of the processes of the rehearsal that still run."""
        return processes_naming(self.folder)

    def stop(self) -> list[int]:
        """End every child, newest first. After a moment, kill all other processes of the rehearsal.

        Returns the ids that it had to kill because they outlived their parent: normally none.
        """
        for child in reversed(self._children):
            _end(child)
        self._children.clear()
        strays = wait_until_gone(self.folder, timeout_s=SETTLE_S)
        kill(strays)
        return strays

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._owned = _owned(self.folder)
        self._guardian = subprocess.Popen(
            [sys.executable, "-m", "rehearsal.guardian", self.folder],
            cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._guardian:
            self._guardian.communicate()
        if self._owned is not None:
            os.close(self._owned)


def _how(status: int) -> str:
    """An exit status in words; a negative one is a signal (`subprocess.Popen.returncode`)."""
    if status >= 0:
        return f"with status {status}"
    hint = " (by a person, or by the kernel because memory was full)" if -status == signal.SIGKILL else ""
    return f"by signal {signal.Signals(-status).name}{hint}"


def _end(child: Child) -> None:
    """Send SIGTERM to the child. Once it has ended, or after GRACE_S, send SIGKILL to its group."""
    if child.running:
        with contextlib.suppress(ProcessLookupError):
            child.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.process.pid, signal.SIGKILL)
    child.process.wait()


def kill(pids: Iterable[int]) -> None:
    """Send SIGKILL to each process that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_naming(folder: Path) -> list[int]:
    """Ids of the live processes (not this one) whose environment names `folder`."""
    needle = str(folder).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it has ended meanwhile, or belongs to another user
            if needle in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def clear_abandoned(folders: Iterable[Path]) -> None:
    """Remove the work folders of rehearsals that have ended, and end their processes: the rehearsal and its guardian
    may have been killed.
    """
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            owned = _owned(folder)
            if owned is None:
                continue
            while left := processes_naming(folder):
                kill(left)
                time.sleep(0.05)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(owned)


def _owned(folder: Path) -> int | None:
    """A descriptor of the folder that holds its lock; None if another process has the lock. The kernel frees the lock
    when its process ends.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def wait_until_gone(folder: Path, *, timeout_s: float) -> list[int]:
    """Wait until no process names `folder`. Returns the ids that are left after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while (left := processes_naming(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
