"""One sweep on several nodes: splits it, shows what all parts cost, asks once, and starts an ordinary run for each."""

import math
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from specdecode.cli.aws_errors import what_to_do
from specdecode.cli.experiments_view import parts_tables
from specdecode.cli.output import EXIT_ENVIRONMENT, EXIT_USAGE, agree, say, say_json, show, stop_with
from specdecode.cli.runs_deployment import Deployment
from specdecode.cli.runs_start import Wanted, estimate, inventory_of
from specdecode.cli.runs_view import new_run_id
from specdecode.experiment.kept import deploy_with
from specdecode.planning.several_nodes import NodePart, plan_parts


def start_on_nodes(
    deployment: Deployment, wanted: Wanted, nodes: int, *, accepted: float | None, yes: bool, as_json: bool
) -> None:
    """Start a run for each node. Nothing is started before all are planned, checked and accepted."""
    there = deployment.capacity.nodes
    if nodes > there:
        has = "one node" if there == 1 else f"{there} nodes"
        raise stop_with(f"this deployment has {has}, not {nodes}: {deploy_with({'nodes': str(nodes)})}", EXIT_USAGE)
    inventory = inventory_of(deployment, wanted.experiment)
    _, whole = estimate(deployment, wanted.experiment, inventory)
    parts = plan_parts(wanted.experiment, nodes, inventory=inventory, capacity=deployment.capacity)
    if not as_json:
        show(*parts_tables(wanted.name, parts, whole))
    _consent(parts, accepted=accepted)
    agree("Start them?", yes=yes, ask=not as_json, refused="nothing was started")
    now, token, caller = datetime.now(UTC), secrets.token_hex(2), deployment.caller()
    asked = {
        new_run_id(wanted.name, now=now, token=f"{token}-{number}"): _request(part, caller)
        for number, part in enumerate(parts, start=1)
    }
    for request in asked.values():
        deployment.input_of(request)  # none is too large
    started: dict[str, str] = {}
    for run_id, request in asked.items():
        try:
            started[run_id] = deployment.start(run_id, request)
        except (ClientError, BotoCoreError) as error:
            raise stop_with(_not_started(run_id, error, [*started]), EXIT_ENVIRONMENT) from None
        if not as_json:
            say(f"started {run_id}")
    listed = ",".join(started)
    if as_json:
        say_json(
            [
                {"run_id": run_id, "execution_arn": arn, "arms": part.arms, "bill": part.bill.model_dump(mode="json")}
                for (run_id, arn), part in zip(started.items(), parts, strict=True)
            ]
        )
    else:
        say(f"specdecode status {listed}\nspecdecode compare {listed}    # all arms together, once all have ended")


def _consent(parts: Sequence[NodePart], *, accepted: float | None) -> None:
    """End the command if all parts together could cost more than the deployment allows or the user accepted."""
    most, limit = sum(part.bill.added for part in parts), parts[0].bill.accept_above
    if most > limit and (accepted or 0) < most:
        given = f"--accept-cost {accepted:g} is not enough" if accepted else f"more than ${limit:,.0f}"
        raise stop_with(
            f"together they could cost ${most:,.0f}, if every step lasts until its deadline ({given}): add "
            f"--accept-cost {math.ceil(most)}, or shorten their deadlines (--set deadlines.benchmark=60)",
            EXIT_USAGE,
        )


def _request(part: NodePart, caller: str | None) -> dict[str, Any]:
    said = {
        "accept_cost": math.ceil(part.bill.to_accept) if part.bill.to_accept is not None else None,
        "started_by": caller,
    }
    return {
        "experiment": part.plan.experiment.model_dump(mode="json"),
        **{key: value for key, value in said.items() if value is not None},
    }


def _not_started(run_id: str, error: Exception, started: Sequence[str]) -> str:
    if not started:
        return f"{run_id} could not be started: {error} ({what_to_do(error)}); nothing was started"
    listed = ",".join(started)
    return (
        f"{run_id} could not be started: {error} ({what_to_do(error)}). These go on: {', '.join(started)}\n"
        f"Stop them: specdecode stop {listed}"
    )
