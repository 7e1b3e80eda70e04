"""Gives the node back from the command line. It runs the watchdog, which works without the bucket's documents."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from specdecode import names
from specdecode.cli.output import EXIT_ENVIRONMENT, EXIT_FAILED, agree, complain, say, stop_with
from specdecode.cli.runs_deployment import Deployment, Execution, FunctionFailed
from specdecode.cli.runs_view import TERMINAL
from specdecode.giving_back import BACKSTOP_PERIOD_MINUTES, BACKSTOP_WINDOW_MINUTES
from specdecode.runs.cluster_view import ClusterView

ATTEMPTS = 30
PAUSE_S = 2.0


def run_to_stop(deployment: Deployment) -> str | None:
    """The run that holds a node, else the newest that goes on, else None. Ends the command if several hold one, or if
    runs go on and it is not known who does.
    """
    seen = deployment.cluster()
    _complain(seen.problems)
    holder = _only_holder(seen)
    if holder is not None:
        say(f"{holder} holds the node")
        return holder
    going = _going(deployment)
    if going and not seen.is_holder_known:
        raise _not_known(going)
    newest = next(iter(going), None)
    nobody = "nobody holds a node; " if seen.is_holder_known else ""
    say(nobody + (f"the newest run that goes on is {newest}" if newest else "no run goes on"))
    return newest


def free(deployment: Deployment, *, yes: bool) -> None:
    """Bring replicas and workloads to what the lease says, then take the node from the run that holds one.

    A run that goes on is stopped only if the user agrees, or with `yes`: alarms name this command. Ends the command
    with 1 if it is not known which run holds one.
    """
    done = _reconcile(deployment)
    seen = deployment.cluster()
    holder = _only_holder(seen)
    if holder is not None:
        found = deployment.find(holder)
        if found is not None and found.status not in TERMINAL:
            _tell(done)
            agree(f"{holder} holds the node. Stop it?", yes=yes, ask=True, refused=f"{holder} goes on")
            stop_run(deployment, found)
        give_back(deployment, holder)
        return
    if not seen.is_holder_known:
        _tell(done)
        _complain(seen.problems)
        raise _not_known(_going(deployment))
    if done["replicas"] is not None:
        say("nobody holds a node")
    _say_done(deployment, done)


def stop_run(deployment: Deployment, found: Execution) -> None:
    """Stop a run that goes on, and say so."""
    deployment.stop(found.arn)
    say(f"stopped {found.run_id}")


def bring_to_zero(deployment: Deployment) -> None:
    """Give back a node that no run has. A run that has just begun keeps it: nothing is stopped."""
    _say_done(deployment, _reconcile(deployment))


def _only_holder(seen: ClusterView) -> str | None:
    """The run that holds a node. None if no run does. Ends the command with 2 and their names if several do."""
    holders = [claim.run_id for claim in seen.lease.holders]
    if len(holders) > 1:
        stops = "".join(f"\n  specdecode stop {run_id}" for run_id in holders)
        raise stop_with(f"{len(holders)} runs hold a node each; nothing was stopped. Say which:{stops}")
    return holders[0] if holders else None


def _going(deployment: Deployment) -> list[str]:
    """Ids of the runs that go on, the newest first."""
    return [run.run_id for run in deployment.executions(limit=100) if run.status not in TERMINAL]


def _say_done(deployment: Deployment, done: dict[str, Any]) -> None:
    """What the watchdog did. Ends the command with 1 if it could not know how many nodes there should be."""
    _tell(done)
    if done["replicas"] is None:
        raise _not_known(_going(deployment))
    say(f"the node pools have {done['replicas']} replicas")


def _not_known(going: Sequence[str]) -> typer.Exit:
    stops = "".join(f"\n  specdecode stop {run_id}" for run_id in going)
    then = f"Stop each run that goes on:{stops}" if going else "No run goes on. Try again"
    return stop_with(f"the lease cannot be read, so it is not known which run holds a node. {then}", EXIT_FAILED)


def give_back(deployment: Deployment, run_id: str) -> None:
    """Run the watchdog until nothing of the run is left. Ends the command with 1 if something stays, or if it is not
    known.
    """
    done: dict[str, Any] = {}
    left = ""
    for _ in range(ATTEMPTS):
        done = _reconcile(deployment)
        seen = deployment.cluster()
        claims = {claim.run_id for claim in (*seen.lease.claims, *seen.turns.claims)}
        stands = run_id in claims or any(pod.run == names.run_label(run_id) for pod in seen.pods)
        if done["replicas"] is not None and seen.is_holder_known and not stands:
            _tell(done)
            say(f"released; the node pools have {seen.replicas} replicas")
            return
        left = "still has workloads" if stands else "may still hold a node: the lease cannot be read"
        time.sleep(PAUSE_S)
    _tell(done)
    raise stop_with(f"{run_id} {left}; the watchdog goes on (`specdecode capacity`)", EXIT_FAILED)


def _reconcile(deployment: Deployment) -> dict[str, Any]:
    """What the watchdog found and did. If it fails, ends the command with 3 and says what to do."""
    try:
        return deployment.reconcile()
    except FunctionFailed as failure:
        raise stop_with(
            f"{failure}\nThe watchdog could not run: a node may still be there, and is billed. The backstop, which "
            f"needs neither Kubernetes nor the bucket, ends its instance {BACKSTOP_WINDOW_MINUTES} to "
            f"{BACKSTOP_WINDOW_MINUTES + BACKSTOP_PERIOD_MINUTES} min after the watchdog's last heartbeat if no run "
            f"goes on. At once, by hand: docs/operations.md#a-node-that-stays",
            EXIT_ENVIRONMENT,
        ) from None


def _tell(done: dict[str, Any]) -> None:
    for name in done.get("deleted", ()):
        say(f"deleted node {name}, which Karpenter had not begun to end")
    _complain(done.get("problems", ()))


def _complain(problems: Iterable[str]) -> None:
    for problem in problems:
        complain(f"problem: {problem}")
