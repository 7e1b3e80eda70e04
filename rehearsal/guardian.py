"""`python -m rehearsal.guardian FOLDER`: end a rehearsal's processes when the rehearsal itself was killed.

It waits for the end of its input, a pipe that only the rehearsal holds: the kernel closes it, however that one ends.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rehearsal.processes import kill, processes_naming


def main() -> None:
    folder = Path(sys.argv[1])
    sys.stdin.buffer.read()
    while left := processes_naming(folder):
        kill(left)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
