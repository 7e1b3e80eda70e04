"""`python -m rehearsal [EXPERIMENT]`: the command is `rehearsal.command`."""

import signal
import sys

if __name__ == "__main__":
    # The imports take a second. Until the command sets its own handlers, Ctrl-C ends the process at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rehearsal.command import main

    sys.exit(main())
