"""Follows a run: a line for each change. A terminal also shows the whole view below, kept up to date."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError
from rich.console import Console
from rich.live import Live
from rich.text import Text

from specdecode.cli.output import complain
from specdecode.cli.runs_deployment import Deployment
from specdecode.cli.runs_view import TERMINAL, RunView, clock, lines, pod_line, view
from specdecode.escape import line
from specdecode.runs.state import StateDamaged

Stored = TypeVar("Stored")
PODS_EVERY_S = 15.0
"""Seconds between two looks at pods. Each is a call of the inspect function, and of the Kubernetes API behind it."""


def look(deployment: Deployment, run_id: str | None) -> RunView:
    """The run now; the newest one if `run_id` is None.

    A record or plan that cannot be read is left out of the view: the user who wants to stop the run must still see it.
    """
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
            shown = look(deployment, run_id)
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
                console.print(Text(f"{_so_far(shown)}  {told_now}"), soft_wrap=True)
            live.update(_panel(shown, pods), refresh=True)
            (sleep or time.sleep)(interval)
    console.print(Text("\n".join(lines(shown))), soft_wrap=True)
    return shown


def _so_far(shown: RunView) -> str:
    money = f"  ${shown.dollars:.2f}" if shown.dollars is not None else ""
    return f"{clock(shown.elapsed_s):>8}{money}"


def _panel(shown: RunView, pods: tuple[str, ...]) -> Text:
    text = "\n".join(["", *lines(shown), *(f"  pod         {pod}" for pod in pods)])
    return Text(text, no_wrap=True, overflow="ellipsis")
