"""A run in a few lines, pure functions of history, state and plan; and how it is followed, a line for each change."""

import json
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError
from rich.console import Console
from rich.live import Live
from rich.text import Text

from specdecode.cli.output import complain
from specdecode.cli.runs_deployment import Deployment, Execution
from specdecode.escape import line, plain
from specdecode.experiment.capacity import TERMS, CapacityType
from specdecode.planning import Plan
from specdecode.runs.cluster_view import PodView
from specdecode.runs.state import RunState, StateDamaged
from specdecode.untrusted import Unreadable, parse_json

LOOK_AGAIN = "LookAgain"
"""The errors by which a step says that it is not done yet begin so (specdecode.steps.errors)."""
TERMINAL = {"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"}
"""Step Functions' names for the ends of an execution."""


@dataclass(frozen=True)
class RunView:
    """A run at one moment. Money is what the node has cost since it was held, at the plan's price."""

    run_id: str
    status: str
    experiment: str | None
    step: str | None
    message: str | None
    wave: str | None
    started: str
    elapsed_s: float
    node_s: float | None
    dollars: float | None
    error: str | None
    cause: str | None
    result: dict[str, Any] | None
    fallback: str | None = None
    """Number of artifacts that the node compiles, or compiled, instead of CPU nodes. None if there are none."""
    capacity: CapacityType = "on-demand"
    """How the deployment gets its node now."""
    started_by: str | None = None
    """ARN that the command line wrote into the run's request. None for a run that was started in the console."""


def view(
    execution: Execution,
    events: Sequence[dict[str, Any]],
    state: RunState | None,
    plan: Plan | None,
    *,
    now: datetime,
    capacity: CapacityType = "on-demand",
) -> RunView:
    step, message = current_step(events)
    ended = datetime.fromisoformat(execution.stopped) if execution.stopped else now
    node_s = None
    if state is not None and state.held_since is not None:
        node_s = ((state.released_at or ended) - state.held_since).total_seconds()
    result = json.loads(execution.output) if execution.status == "SUCCEEDED" and execution.output else None
    measured, lost, refused = (len(state.measured), len(state.lost), state.refused_artifacts) if state else (0, 0, ())
    arms = (arm for wave in (plan.waves if plan else ()) for arm in wave.arms)
    again = ", ".join(sorted({arm.variant for arm in arms if arm.fingerprint in refused}))
    return RunView(
        run_id=execution.run_id,
        status=execution.status,
        experiment=state.experiment if state else None,
        step=step if execution.status == "RUNNING" else None,
        message=message if execution.status == "RUNNING" else None,
        wave=_progress(plan, measured, lost) if plan else None,
        started=execution.started,
        elapsed_s=(ended - datetime.fromisoformat(execution.started)).total_seconds(),
        node_s=node_s,
        dollars=None if node_s is None or plan is None else node_s / 3600 * plan.price_per_node_hour,
        error=execution.error or None,
        cause=execution.cause or None,
        result=result,
        fallback=f"{again} on the node: what a CPU node had compiled did not load" if again else None,
        capacity=capacity,
        started_by=state.started_by if state else None,
    )


def _progress(plan: Plan, measured: int, lost: int) -> str:
    """How many waves are measured; of a sweep also: given up with their arm, and why the last was added."""
    planned = len(plan.waves)
    if plan.sweep is None:
        return f"{measured} of {planned} waves measured"
    more = f", {lost} given up with their arm" if lost else ""
    more += "" if plan.sweep.is_over else f", {planned + plan.sweep.waves_to_come} at most"
    return f"{measured} of {planned} waves measured{more}. {plan.sweep.steps[-1].reason}"


def current_step(events: Sequence[dict[str, Any]]) -> tuple[str | None, str | None]:
    """The step of the newest events, and its last line of progress."""
    step, message = None, None
    for event in events:
        if entered := event.get("stateEnteredEventDetails"):
            step, message = entered["name"], message if entered["name"] == step else None
        failed = event.get("taskFailedEventDetails", {})
        if str(failed.get("error")).startswith(LOOK_AGAIN):  # what a step that is not done yet says
            with suppress(Unreadable, KeyError, TypeError):
                message = str(parse_json(str(failed.get("cause")))["errorMessage"])
        exited = event.get("stateExitedEventDetails")
        if exited and exited.get("output"):
            output = json.loads(exited["output"])
            if isinstance(output, dict) and output.get("message"):
                message = str(output["message"])
    return step, message


def lines(shown: RunView) -> list[str]:
    """The view for a terminal. Text of others (messages, causes) cannot begin a line of its own."""
    out = [f"{shown.run_id}  {shown.status}  {clock(shown.elapsed_s)}"]
    if shown.experiment:
        out.append(f"  experiment  {shown.experiment}" + (f", {shown.wave}" if shown.wave else ""))
    if shown.started_by:
        out.append(f"  started by  {line(shown.started_by.rpartition(':')[2])}")
    if shown.step:
        out.append(f"  step        {shown.step}" + (f": {line(shown.message)}" if shown.message else ""))
    if shown.fallback:
        out.append(f"  compiled    {shown.fallback}")
    if shown.dollars is not None and shown.node_s is not None:
        terms = f" {TERMS[shown.capacity]}" if shown.capacity != "on-demand" else ""
        out.append(f"  node        {clock(shown.node_s)}, ${shown.dollars:.2f}{terms}")
    if shown.error:
        out.append(f"  error       {line(shown.error)}")
        out.append(f"  cause       {plain(shown.cause or 'none given')}".replace("\n", f"\n{'':14}"))
    if shown.result:
        out += [f"  {key:<11} {line(str(value))}" for key, value in shown.result.items() if key != "run_id"]
    return out


def pod_line(pod: PodView) -> str:
    """A pod in one line."""
    restarts = f", {pod.restarts} restarts" if pod.restarts else ""
    state = "Ready" if pod.ready else pod.phase
    return line(f"{pod.name} {state}{restarts}{f': {pod.problem}' if pod.problem else ''}")


def clock(seconds: float) -> str:
    """`1:02:03`, or `2:03` below an hour."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def new_run_id(experiment: str, *, now: datetime | None = None, token: str | None = None) -> str:
    """`qwen3-32b-20260801-131500-1a2b`: it sorts by time and fits into a label, also with `-16` at its end."""
    return f"{experiment[:37]}-{now or datetime.now(UTC):%Y%m%d-%H%M%S}-{token or secrets.token_hex(2)}"


Stored = TypeVar("Stored")
PODS_EVERY_S = 15.0
"""Seconds between two looks at pods. Each is a call of the inspect function, and of the Kubernetes API behind it."""


def run_now(deployment: Deployment, run_id: str | None) -> RunView:
    """The run now, or the newest. What cannot be read is left out: who wants to stop the run must still see it."""
    found = deployment.execution(run_id)
    state = _readable(lambda: deployment.state(found.run_id))
    plan = _readable(lambda: deployment.plan(found.run_id))
    known = _readable(lambda: deployment.capacity)
    terms = "on-demand" if known is None else known.of(plan.experiment.node).type if plan else known.type
    return view(found, deployment.events(found.arn), state, plan, now=datetime.now(UTC), capacity=terms)


def _readable(read: Callable[[], Stored | None]) -> Stored | None:
    try:
        return read()
    except (StateDamaged, ValidationError, ClientError, BotoCoreError):
        return None


def watch(
    deployment: Deployment,
    run_id: str,
    *,
    interval: float,
    quiet: bool,
    console: Console | None = None,
    sleep: Callable[[float], None] | None = None,
) -> RunView:
    """Show steps, pods, time and money every `interval` seconds until the run ends. Ctrl-C leaves the run running."""
    complain(f"{run_id} (Ctrl-C leaves it running; `specdecode stop {run_id}` stops it)")
    console = console or Console(quiet=quiet, highlight=False)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        told: tuple[str | None, str | None] = (None, None)
        pods: tuple[str, ...] = ()
        asked_at: float | None = None
        while True:
            shown = run_now(deployment, run_id)
            if shown.status in TERMINAL:
                break
            news = []
            if shown.step and (shown.step, shown.message) != told:
                told = (shown.step, shown.message)
                news.append(line(f"{shown.step}  {shown.message or ''}".rstrip()))
            if not quiet and (asked_at is None or time.monotonic() - asked_at >= PODS_EVERY_S):
                found = deployment.pods(run_id)
                asked_at = time.monotonic()
                if found is not None:
                    now = tuple(pod_line(pod) for pod in found)
                    news += [f"pod  {pod}" for pod in now if pod not in pods]
                    pods = now
            for told_now in news:
                money = f"  ${shown.dollars:.2f}" if shown.dollars is not None else ""
                console.print(Text(f"{clock(shown.elapsed_s):>8}{money}  {told_now}"), soft_wrap=True)
            panel = "\n".join(["", *lines(shown), *(f"  pod         {pod}" for pod in pods)])
            live.update(Text(panel, no_wrap=True, overflow="ellipsis"), refresh=True)
            (sleep or time.sleep)(interval)
    console.print(Text("\n".join(lines(shown))), soft_wrap=True)
    return shown
