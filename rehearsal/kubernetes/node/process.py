"""One process of a container. It has a process group of its own; its output is logged; its whole group is ended."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from rehearsal.kubernetes.node.logs import ContainerLog

_LINE = 1024 * 1024


def _without_write_override() -> list[str]:
    """Prefix of commands run by root. It removes the right to write to read-only files, so a read-only mount stays
    read-only.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    return [setpriv, "--inh-caps", "-dac_override", "--bounding-set", "-dac_override", "--"] if setpriv else []


class Process:
    """A running command. `exit_code` is what Kubernetes shows: 128 + n if signal n ended it."""

    def __init__(self, process: asyncio.subprocess.Process, output: BinaryIO, log: ContainerLog) -> None:
        self._process = process
        self.log = log
        self._pump = asyncio.create_task(self._copy(output))

    @classmethod
    async def start(cls, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: ContainerLog) -> "Process":
        """Raises OSError if the command cannot be started."""
        found = shutil.which(command[0], path=env["PATH"]) if "/" not in command[0] else command[0]
        if found is None:
            raise FileNotFoundError(f'exec: "{command[0]}": executable file not found in $PATH')
        if not os.access(cwd / found, os.X_OK):
            raise FileNotFoundError(f'exec: "{command[0]}": no such file or not executable')
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *_without_write_override(),
                found,
                *command[1:],
                cwd=cwd,
                env=dict(env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return cls(process, os.fdopen(reading, "rb", buffering=0), log)

    async def _copy(self, output: BinaryIO) -> None:
        """Log line by line. The pipe is ours, since a process that has left the group may hold it open for ever."""
        stream = asyncio.StreamReader(limit=_LINE)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), output)
        try:
            await self._copy_lines(stream)
        finally:
            transport.close()

    async def _copy_lines(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                self.log.line(b"(a line longer than 1 MiB is left out)")
                continue
            if not line:
                return
            self.log.line(line)

    async def wait(self) -> int:
        """Wait for the end. The rest of the process group is killed, then the log is complete."""
        code = await self._process.wait()
        self._signal_group(signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._pump, 2.0)
        self.log.close()
        return 128 - code if code < 0 else code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, unless it has ended."""
        if self._process.returncode is None:
            self._signal_group(number)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    @property
    def pid(self) -> int:
        return self._process.pid
