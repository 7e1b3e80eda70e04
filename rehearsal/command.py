"""`python -m rehearsal [EXPERIMENT]`: the whole path on this machine, and the comparison at its end.

Exit status: 0 done, 1 the run failed, 2 unknown experiment, 3 this machine cannot rehearse, 130/143 interrupted.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn
from urllib.error import URLError

from botocore.exceptions import BotoCoreError, ClientError
from specdecode.escape import spell_out
from specdecode.experiment import Experiment, ExperimentError, load_preset

from rehearsal import imports, results, tools
from rehearsal.console import Progress, clock
from rehearsal.deployment import settings_for
from rehearsal.processes import ChildFailed
from rehearsal.rehearse import Rehearsal, rehearsal

TRY_AGAIN = (
    "No process of this rehearsal is left. Start again with make rehearse. The logs are in .rehearsal/runs until then."
)


class Interrupted(BaseException):
    """A signal asked this process to end; the argument is its number."""


def _interrupt(number: int, _frame: Any) -> NoReturn:
    """Leave every `with` block, which cleans up. Later signals are ignored, so that they do not interrupt the
    cleaning.
    """
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)


def main() -> int:
    for stream in (sys.stdout, sys.stderr):
        spell_out(stream)
    parser = argparse.ArgumentParser(prog="make rehearse", description=__doc__)
    parser.add_argument(
        "experiment", nargs="?", default="rehearsal", help="a preset whose engine is made for this machine"
    )
    name = parser.parse_args().experiment
    os.environ.update({"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"})
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    progress = Progress()
    try:
        experiment = load_preset(name)
        imports.check(experiment)
        tools.check()
        return _rehearse(experiment, progress)
    except ExperimentError as error:
        progress.note(str(error), style="red")
        return 2
    except tools.Unusable as error:
        progress.note(str(error), style="red")
        return 3
    except ChildFailed as error:
        progress.note(f"{error}\n{TRY_AGAIN}", style="red")
        return 1
    except (BotoCoreError, ClientError, URLError, ConnectionError, TimeoutError) as error:
        progress.note(f"The embedded cloud did not answer as it should: {error}\n{TRY_AGAIN}", style="red")
        return 1
    except OSError as error:
        progress.note(tools.refused_by_the_system(error), style="red")
        return 3
    except Interrupted as interrupted:
        progress.note("Interrupted: every process of the rehearsal has been ended.")
        return 128 + int(interrupted.args[0])


def _rehearse(experiment: Experiment, progress: Progress) -> int:
    progress.note(f"Rehearsing '{experiment.name}': {experiment.title}")
    with rehearsal(progress, settings_for(experiment.node)) as running:
        running.deploy()
        running.import_models(experiment)
        first = _run(running, experiment, progress)
        again = _read_again(running, experiment, progress, first) if first and experiment.readers else first
        running.destroy()
    strays = running.left()
    ended = f"but still running: {strays}" if strays else "no process left"
    progress.note(f"{clock(progress.elapsed_s):>6}   NodePool at 0 replicas, stacks deleted, {ended}")
    if not again or strays:
        progress.note(f"Logs of the embedded cloud: {running.processes.folder}/logs")
        return 1
    running.forget()
    return 0


def _read_again(running: Rehearsal, experiment: Experiment, progress: Progress, first: Path) -> Path | None:
    """Run the experiment from the answers of its `first` run, and lay that forecast beside what was measured then."""
    found = _run(running, experiment, progress, f"answers={first.name}")
    if found:
        print(results.beside_measured(found, first), flush=True)
    return found


def _run(running: Rehearsal, experiment: Experiment, progress: Progress, *settings: str) -> Path | None:
    """Run the experiment, fetch its folder, print its answer. None if the run failed."""
    run = running.run(experiment.name, *settings)
    progress.note(f"       Run {run.run_id}")
    ended = run.follow(progress)
    folder = running.download(run.run_id, to=tools.RESULTS).relative_to(tools.ROOT)
    if ended.status != "SUCCEEDED":
        progress.note(f"\nThe run ended as {ended.status}: {ended.error}\n{ended.cause}", style="red")
        progress.note(f"Logs, events and descriptions: {folder}/diagnostics\n")
        return None
    width = progress.console.width if sys.stdout.isatty() else 120
    print(f"\n{results.table(tools.ROOT / folder, colour=sys.stdout.isatty(), width=width)}", flush=True)
    raw = f"\nRaw records: {folder}/raw" if (tools.ROOT / folder / "raw").exists() else ""
    print(f"Report: {folder}/report.html{raw}", flush=True)
    print(f"Nothing was billed. The dollars above are what a {experiment.node} would cost.\n", flush=True)
    return tools.ROOT / folder
