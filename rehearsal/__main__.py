"""`python -m rehearsal [EXPERIMENT]`: the command is `rehearsal.command`."""

import signal
import sys

if __name__ == "__main__":
    # Until the command's own handlers stand, Ctrl-C ends the process at once: the imports take a second.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rehearsal.command import main

    sys.exit(main())
