"""Make a compiled artifact, or check that the engine starts: `python3 -m specdecode.pod.compile --artifact
compiled/…/ … -- vllm serve …`.

A server compiles when it finds no artifact, and it never exits. So it is started on local disk, given time until it is
healthy, and stopped. On a node without Neuron devices it may end when it would load what it has compiled: then files
show that it has compiled. It has no credentials: weights were fetched before (`pod.fetch`), and its output is
verified and uploaded after it has ended (`pod.upload`).

A start check does the same with a tiny model (`pod.tiny_model`), asks the server for a few tokens, and keeps nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from specdecode.exit_codes import Exit
from specdecode.pod import smoke
from specdecode.pod.program import Parser, PodArm, PodError, run, say

NOTHING_TO_DO = Path("models") / "nothing-to-do"
"""File that `pod.fetch` leaves if the artifact is complete already."""
LOOK_EVERY_S = 1.0
STOP_S = 60.0


def nothing_to_do() -> None:
    """Leave word for the program that would compile."""
    NOTHING_TO_DO.parent.mkdir(exist_ok=True)
    NOTHING_TO_DO.touch()


def main(arguments: Sequence[str]) -> None:
    """Make one artifact as the command line says."""
    parser = Parser(description=__doc__)
    parser.add_argument("--artifact", help="folder that the server writes, compiled/<fingerprint>/")
    parser.add_argument("--artifact-variable", help="variable that tells the server the folder")
    parser.add_argument("--health", required=True, help="URL that answers 200 when the server is ready")
    parser.add_argument("--minutes", type=float, required=True, help="longest time until the server is healthy")
    parser.add_argument(
        "--leaves", action="append", default=[], help="without devices: a file that is there once all is compiled"
    )
    parser.add_argument("--ask", metavar="MODEL", help="once it is healthy, ask this model for a few tokens")
    parser.add_argument("command", nargs="+", help="the server, after --")
    options = parser.parse_args(arguments)
    if NOTHING_TO_DO.exists():
        say("nothing is compiled")
        return
    folder = Path.cwd() / (options.artifact or "")
    if options.artifact_variable:
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[options.artifact_variable] = str(folder)
    made = tuple(folder / path for path in options.leaves)
    limit_s = options.minutes * 60
    compile_by_serving(options.command, health=options.health, limit_s=limit_s, made=made, ask=options.ask)


def compile_by_serving(
    command: Sequence[str], *, health: str, limit_s: float, made: Sequence[Path] = (), ask: str | None = None
) -> float:
    """Run the server until it is healthy, `ask` its model for a few tokens, stop it, and return the seconds.

    A server that ends by itself has done its work if all files of `made` exist and none is empty. It gets the image's
    own Python packages: those of the bundle are for another Python than some engines have.
    """
    started = time.monotonic()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(list(command), env=env, start_new_session=True) as server:
        stopping = threading.Event()
        previous = signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
        try:
            while not smoke.healthy(health):
                if server.poll() is not None:
                    if (
                        server.returncode < 0
                        or not made
                        or not all(path.is_file() and path.stat().st_size for path in made)
                    ):
                        raise _ended(server.returncode)
                    say(f"the server ended with {server.returncode} once it had compiled: it has no device to load on")
                    break
                if stopping.is_set():
                    raise PodError(Exit.NOT_HEALTHY, "stopped from outside before the server was healthy")
                if time.monotonic() - started > limit_s:
                    raise PodError(Exit.NOT_HEALTHY, f"the server was not healthy after {limit_s / 60:g} minutes")
                stopping.wait(LOOK_EVERY_S)
            else:
                say(f"the server is healthy after {time.monotonic() - started:.0f} s")
                if ask:
                    _ask(health.removesuffix("/health"), ask)
        finally:
            signal.signal(signal.SIGTERM, previous)
            _stop(server)
    return time.monotonic() - started


def _ask(url: str, model: str) -> None:
    """Some tokens, whatever they are: enough for drafts to be verified too. Raises PodError if there is no answer."""
    body = {"prompt": smoke.PROMPT, "ignore_eos": True}
    try:
        answer = smoke.ask(PodArm("", url, model, None), "completions", body)
    except ValueError as error:
        raise PodError(Exit.BAD_ANSWER, f"the server started and did not answer: {error}") from None
    say(f"it answers: {answer.tokens} tokens")


def _ended(code: int) -> PodError:
    how = (
        f"was killed by signal {-code}" + (" (out of memory?)" if code == -9 else "") if code < 0 else f"exited {code}"
    )
    return PodError(Exit.SERVER_EXITED, f"the server {how} before it was healthy; its log is above")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the server's whole group, SIGKILL after STOP_S."""
    for number, patience in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(server.pid, number)
            server.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        else:
            return


if __name__ == "__main__":
    run(main)
