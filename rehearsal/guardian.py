"""`python -m rehearsal.guardian FOLDER`: end a rehearsal's processes if the rehearsal itself was killed. The guardian
waits for the end of its input. That is a pipe that only the rehearsal holds, so the kernel closes it when the rehearsal
ends, however it ends.
"""

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
