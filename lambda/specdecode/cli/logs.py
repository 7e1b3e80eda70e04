"""`specdecode logs`: what the pods of a run write, while it goes on and after."""

from typing import Annotated, Literal

import typer

from specdecode.cli.options import WHERE, Where
from specdecode.cli.output import EXIT_ENVIRONMENT, complain, say, say_json_line, stop_with

Writers = Literal["stage", "check", "compile", "serve", "smoke", "benchmark", "accuracy", "hold"]
"""Steps of a run whose pods write, by the value of their component label."""


def logs(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN", help="The run's id. Default: the newest run.")] = None,
    step: Annotated[Writers | None, typer.Option(help="Only pods of this step.")] = None,
    arm: Annotated[
        str | None, typer.Option(metavar="ARM", help="Only pods of this arm: its checks, compiles and servers.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    where: Where = WHERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line, for scripts.")] = False,
) -> None:
    """Show what a run's pods write: servers, compiles, benchmark. Needs no right in Kubernetes.

    The lines come from CloudWatch Logs, some seconds after a pod wrote them; your AWS identity needs
    logs:FilterLogEvents on that group. If it has none and the run failed, those that the diagnosis kept are shown. What
    looks like a credential is hidden. With --follow it ends with the run; the exit code is then not the run's.
    """
    from specdecode.cli import log_events
    from specdecode.cli.runs_view import TERMINAL

    deployment = where.deployment()
    found = deployment.execution(run_id)
    plan = deployment.plan(found.run_id)
    arms = [variant.name for variant in plan.experiment.variants] if plan else []
    if arm is not None and arm not in arms:
        has = f"it has {', '.join(arms)}" if arms else "nothing is planned yet"
        raise stop_with(f"{found.run_id} has no arm {arm}: {has}")
    source = log_events.of_run(deployment, found, plan)
    complain(f"{found.run_id}: log group {source.group}")

    def show(entry: log_events.LogLine) -> bool:
        if step not in (None, entry.step) or arm not in (None, entry.arm):
            return False
        if as_json:
            say_json_line(entry.document())
        else:
            say(entry.shown())
        return True

    try:
        if follow and found.status not in TERMINAL:
            ended = source.follow(show)
            complain(f"{found.run_id} has ended: {ended.status}")
            return
        shown = sum(map(show, source.entries()))
    except KeyboardInterrupt:
        raise stop_with(f"`specdecode logs {found.run_id} --follow` goes on from the beginning", 130) from None
    except log_events.NoGroup as missing:
        if not sum(map(show, source.kept())):
            raise stop_with(str(missing), EXIT_ENVIRONMENT) from None
        complain(f"{missing}; these are the logs that the diagnosis kept")
        return
    if not shown and not sum(map(show, source.kept())):
        complain("nothing was written there yet, or the log group keeps it no longer")
