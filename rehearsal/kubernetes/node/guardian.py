"""The guardian ends all processes of a double. Each has the double's marker in its environment.

`python -m rehearsal.kubernetes.node.guardian <marker>` waits for the end of its input. It comes when the double ends,
however it ends. Then the guardian kills every process with the marker.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

VARIABLE = "REHEARSAL_INSTANCE"


def kill_marked(marker: str) -> int:
    """Send SIGKILL to every process with the marker, until none is left. Returns how many there were."""
    wanted = f"{VARIABLE}={marker}".encode()
    killed = 0
    for _ in range(50):
        found = [pid for pid in _processes() if wanted in _environment(pid)]
        if not found:
            break
        killed += len(found)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return killed


def _processes() -> list[int]:
    own = os.getpid()
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != own]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def start(marker: str) -> subprocess.Popen[bytes]:
    """The guardian of this process."""
    command = [sys.executable, "-m", "rehearsal.kubernetes.node.guardian", marker]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    kill_marked(sys.argv[1])
