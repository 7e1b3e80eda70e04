"""Commands about runs: start, watch, stop and understand them, and see who has the node."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode import names, s3_keys
from specdecode.cli.options import WHERE, AsJson, Overrides, Where, Yes, duration, experiments
from specdecode.cli.output import EXIT_FAILED, agree, answer, complain, say, say_json, stop_with

if TYPE_CHECKING:
    from specdecode.cli.runs_deployment import Deployment

RunId = Annotated[str | None, typer.Argument(metavar="RUN", help="The run's id. Default: the newest run.")]
RunIds = Annotated[
    str | None, typer.Argument(metavar="RUN[,RUN]", help="The run's id, or several. Default: the newest run.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Follow steps, pods, time and money until it ends.")]
Interval = Annotated[float, typer.Option(min=0.2, help="Seconds between two looks with --watch.")]


def run(
    experiment: Annotated[
        str | None,
        typer.Argument(metavar="PRESET|FILE", help="A preset's name or a YAML file.", autocompletion=experiments),
    ] = None,
    overrides: Overrides = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Repeat this run, skipping what it finished.")
    ] = None,
    nodes: Annotated[
        int, typer.Option(min=1, max=names.MOST_NODES, help="Share the arms among so many nodes: a run for each.")
    ] = 1,
    hold: Annotated[
        int | None, typer.Option(metavar="TIME", parser=duration, help="Keep the arms so long at the end, for `ask`.")
    ] = None,
    watch: Watch = False,
    interval: Interval = 5.0,
    yes: Yes = False,
    accept_cost: Annotated[
        float | None, typer.Option(min=0, metavar="USD", help="Accept that it could cost this much at most.")
    ] = None,
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """Start a run: compile, serve, benchmark and report, then give the node back.

    Without a preset or file it lists the presets with their prices. It shows the expected and the highest cost, and
    asks before it starts anything. Without a terminal, or with --json, it needs --yes. A run that could cost more than
    --accept-cost or, without that, than the deployment's accept_cost_above_usd is refused. With --watch the exit code
    is the run's.

    With --hold 30m the arms stay for 30 minutes after their last benchmark, and `specdecode ask` asks them. The node is
    billed for that time, which is in the cost that is shown.

    First it checks, in a second or two, what would make the run fail: alerts, the reservation and its window, models
    that must be uploaded and the token of gated ones. `specdecode preflight` checks the rest.
    """
    from specdecode.cli import runs_start as starting
    from specdecode.cli.preflight.checks import refuse_a_run_that_would_fail
    from specdecode.cli.runs_view import new_run_id

    if nodes > 1 and (resume or watch):
        why = "a part is resumed as any run: --resume RUN alone" if resume else "--watch follows one run"
        raise stop_with(f"--nodes starts {nodes} runs; {why}")
    if resume and hold:
        raise stop_with("--resume repeats a run with its own hold: start a new one with --hold")
    overrides = [*(overrides or []), *([f"hold={math.ceil(hold / 60)}"] if hold else [])]
    asked = None if resume else starting.wanted_run(experiment, overrides)
    deployment = where.deployment()
    wanted = asked or starting.resumed_run(deployment, str(resume))
    refuse_a_run_that_would_fail(deployment, wanted.experiment)
    if nodes > 1:
        starting.start_on_nodes(deployment, wanted, nodes, accepted=accept_cost, yes=yes, as_json=as_json)
        return
    inventory = starting.inventory_of(deployment, wanted.experiment)
    plan, bill = starting.estimate(deployment, wanted.experiment, inventory)
    starting.consent(wanted, plan, bill, accepted=accept_cost, yes=yes, as_json=as_json)
    shown = math.ceil(bill.added) if accept_cost is None else accept_cost
    said = {"accept_cost": shown, "started_by": deployment.caller()}
    run_id = new_run_id(wanted.name)
    request = {**wanted.request, **{key: value for key, value in said.items() if value is not None}}
    arn = starting.begin(deployment, {run_id: request}, quiet=as_json or watch)[run_id]
    if watch:
        _follow(deployment, run_id, interval=interval, as_json=as_json)
    elif as_json:
        say_json({"run_id": run_id, "execution_arn": arn, "bill": bill.model_dump(mode="json")})
    else:
        say(f"specdecode status {run_id} --watch")


def status(
    run_id: RunIds = None, watch: Watch = False, interval: Interval = 5.0, where: Where = WHERE, as_json: AsJson = False
) -> None:
    """Show a run: step, pods, elapsed time, what the node has cost so far, result or cause.

    With --watch it follows the run, and the exit code is the run's. With --json, `pods` are those of a run that goes
    on, each with its problem; null if they cannot be read now.
    """
    from specdecode.cli.runs_view import TERMINAL, lines, pod_line, run_now

    deployment = where.deployment()
    asked = run_id.split(",") if run_id else [None]
    if watch:
        if len(asked) > 1:
            raise stop_with("--watch follows one run")
        _follow(deployment, deployment.execution(run_id).run_id, interval=interval, as_json=as_json)
        return
    views = [run_now(deployment, each) for each in asked]
    found = [(view, deployment.pods(view.run_id) if view.status not in TERMINAL else ()) for view in views]
    if as_json:
        documents = [
            {**asdict(shown), "pods": None if pods is None else [pod.model_dump(mode="json") for pod in pods]}
            for shown, pods in found
        ]
        say_json(documents if len(asked) > 1 else documents[0])
        return
    for shown, pods in found:
        say("\n".join(lines(shown)))
        if pods is None:
            say("  pods        cannot be looked at now")
        for pod in pods or ():
            say(f"  pod         {pod_line(pod)}")


def stop(
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="RUN[,RUN]", help="The run's id, or several. Default: the run that holds a node."),
    ] = None,
    yes: Yes = False,
    where: Where = WHERE,
) -> None:
    """Stop a run, delete its workloads and give the node back. Waits until that is done.

    Without RUN it stops the run that holds the node, else the newest that goes on, after it asked; without a terminal
    it needs --yes. If no run goes on, it gives the node back all the same. If several hold a node each, it stops none.
    If there is no run of a given id, it stops the others, and the exit code is 2.
    """
    from specdecode.cli import runs_release
    from specdecode.cli.runs_view import TERMINAL, lines, run_now

    deployment = where.deployment()
    wanted = run_id or runs_release.run_to_stop(deployment)
    if wanted is None:
        runs_release.bring_to_zero(deployment)
        return
    asked = {each: deployment.find(each) for each in wanted.split(",")}
    runs = {each: found for each, found in asked.items() if found or not run_id}
    for each, found in runs.items():
        if found is None or found.status in TERMINAL:
            say(f"{each} has already ended: {found.status if found else 'Step Functions has forgotten it'}")
        else:
            if run_id is None:
                say("\n".join(lines(run_now(deployment, each))))
                agree(f"Stop {each}?", yes=yes, ask=True, refused=f"{each} goes on")
            runs_release.stop_run(deployment, found)
    for each in runs:
        runs_release.give_back(deployment, each)
    if missing := [each for each in asked if each not in runs]:
        raise stop_with(f"there is no run {', '.join(missing)} (`specdecode runs` lists them)")


def diagnose(run_id: RunId = None, where: Where = WHERE, as_json: AsJson = False) -> None:
    """Say why a run failed, in plain words, and where its logs, events and descriptions are kept."""
    deployment = where.deployment()
    found = deployment.execution(run_id)
    prefix = s3_keys.run_key(found.run_id, "diagnostics") + "/"
    summary = deployment.store.read_json(prefix + "diagnosis.json")
    if summary is None:
        raise stop_with(f"{found.run_id} ({found.status}) has no diagnostics: it has not failed")
    files = [key[len(prefix) :] for key in deployment.store.keys(prefix)]
    why = f"{summary['cause']}\n\n{summary['error']}: {summary['detail']}\n\n{deployment.store.url(prefix)}\n"
    document = {**summary, "run_id": found.run_id, "files": files}
    answer(as_json, document, lambda: why + "".join(f"  {name}\n" for name in files))


def _follow(deployment: Deployment, run_id: str, *, interval: float, as_json: bool) -> None:
    """Follow the run to its end. The command's exit code is the run's."""
    from specdecode.cli.runs_view import watch

    try:
        shown = watch(deployment, run_id, interval=interval, quiet=as_json)
    except KeyboardInterrupt:
        raise stop_with(f"{run_id} goes on: `specdecode status {run_id} --watch` follows it again", 130) from None
    if as_json:
        say_json(asdict(shown))
    raise typer.Exit(0 if shown.status == "SUCCEEDED" else EXIT_FAILED)


def capacity(
    release: Annotated[
        bool, typer.Option("--release", help="Give back nodes that nobody holds, and stop the run that holds one.")
    ] = False,
    yes: Yes = False,
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """Show which run holds which node and since when, which runs wait, and which nodes run.

    --release gives back nodes that nobody holds, and asks whether to stop the run that holds one; without a terminal it
    needs --yes. If several runs hold a node each, it names them and stops none: use `specdecode stop RUN`.
    """
    from specdecode.cli import runs_release
    from specdecode.cli.runs_view import clock, pod_line

    deployment = where.deployment()
    if release:
        runs_release.free(deployment, yes=yes)
    seen = deployment.cluster()
    if as_json:
        say_json(seen.model_dump(mode="json"))
        return
    now = datetime.now(UTC)
    lease = seen.lease
    for claim in lease.holders:
        held = (now - (claim.held_since or claim.queued_at)).total_seconds()
        say(f"holder    {claim.run_id} for {clock(held)}{_where(claim.pool, seen.slots)}")
    if not lease.holders:
        say("holder    nobody" if seen.is_holder_known else "holder    not known: the lease could not be read")
    for claim in lease.queue:
        waited = clock((now - claim.queued_at).total_seconds())
        say(f"waiting {lease.position(claim.run_id)} {claim.run_id} for {waited}{_where(claim.pool, seen.slots)}")
    for number, claim in enumerate(seen.turns.claims):
        doing = f"waiting {number} for" if number else "loads"
        say(f"endpoints {claim.run_id} {doing} servers that already run")
    say(f"replicas  {seen.replicas if seen.replicas is not None else 'no NodePool'}")
    say(f"nodes     {', '.join(seen.nodes) or 'none'}")
    for pod in seen.pods:
        say(f"pod       {pod_line(pod)}")
    for problem in seen.problems:
        complain(f"problem: {problem}")


def _where(pool: str, slots: tuple[str, ...]) -> str:
    """The name of the node's pool, if a deployment has more than one node of a kind; else nothing."""
    return f" ({pool})" if len(slots) > len(names.held_pools(1)) else ""
