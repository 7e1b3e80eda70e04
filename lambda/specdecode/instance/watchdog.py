"""Ends what a run left when its command died: `python3 -m specdecode.instance.watchdog LOCK MARK [docker | --venv F]`.

Its standard input is a pipe whose other end the command alone holds: it closes when the command ends, by whatever. It
holds the store then, so that it ends nothing of a next run; if a next run has it already, that one looks itself.
"""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from specdecode.instance.containers import found_tool, held, sweep

SETTLE_S = 5.0
"""Seconds for which it looks again: a container may appear a moment later. A next run waits so long for the store."""
CLOSING_S = 2.0
"""Seconds for which the dead command may still hold the store: its files are closed one after the other."""


def main() -> None:
    lock, mark, *rest = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    tool = found_tool(mark=mark, venv=Path(rest[1]), program=None) if rest[0] == "--venv" else None
    tool = tool or found_tool(mark=mark, venv=None, program=rest[0])
    if sys.stdin.buffer.read() or tool is None:  # a byte: the command has ended all in order
        return
    with suppress(BlockingIOError), held(Path(lock), patience_s=CLOSING_S):
        until = time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            with suppress(OSError, subprocess.SubprocessError):  # a look that fails is not the last
                sweep(tool)
            time.sleep(0.5)


if __name__ == "__main__":
    main()
