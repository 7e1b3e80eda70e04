"""`specdecode capacity`: who holds which node, who waits, and which nodes run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from specdecode import names
from specdecode.cli.options import STACK, Profile, Region, Stack
from specdecode.cli.output import complain, say, say_json

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def capacity(
    release: Annotated[
        bool,
        typer.Option("--release", help="Give back nodes that nobody holds, and stop the run that holds one."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --release: stop the run without asking.")] = False,
    stack: Stack = STACK,
    region: Region = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Show which run holds which node and since when, which runs wait, and which nodes run.

    --release runs the watchdog, which gives back nodes that nobody holds. If a run holds a node, it then asks whether
    to stop that run; without a terminal it needs --yes. If several runs hold a node each, it names them and stops none:
    use `specdecode stop RUN`.
    """
    from specdecode.cli import runs_release
    from specdecode.cli.runs_deployment import Deployment
    from specdecode.cli.runs_view import clock, pod_line

    deployment = Deployment(stack=stack, region=region, profile=profile)
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
        say("holder    nobody")
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
