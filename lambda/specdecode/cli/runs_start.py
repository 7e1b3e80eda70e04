"""Starts a run, or one for each of several nodes: the request, what it would cost, and the user's consent."""

import math
import secrets
from dataclasses import dataclass
from typing import Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from specdecode import s3_keys
from specdecode.analysis.advice.sweep import first_steps
from specdecode.cli.aws_errors import in_a_line
from specdecode.cli.experiments_view import cost_lines, parts_tables
from specdecode.cli.forecast_view import expected_lines
from specdecode.cli.options import RESULTS
from specdecode.cli.output import EXIT_ENVIRONMENT, agree, complain, say, say_json, show, stop_with
from specdecode.cli.runs_deployment import Deployment
from specdecode.cli.runs_view import TERMINAL, new_run_id
from specdecode.experiment import ExperimentError, engine_of, from_document, load, parse_overrides, preset_names, rules
from specdecode.experiment.documents import parse_yaml
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.model import AnyExperiment
from specdecode.experiment.told import without_absent_figures
from specdecode.planning import Bill, Inventory, Plan, make_bill, make_plan, needed_prefixes, read_inventory
from specdecode.planning.offers import offer_lines
from specdecode.planning.several_nodes import plan_parts
from specdecode.runs.answered_run import with_prompts_of_answers
from specdecode.runs.state import StateDamaged


@dataclass(frozen=True)
class Wanted:
    """A run that the user asks for."""

    name: str
    """The run's id begins with this name."""
    request: dict[str, Any]
    """The execution's input, without who started it and the accepted cost."""
    experiment: AnyExperiment


def wanted_run(experiment: str | None, overrides: list[str]) -> Wanted:
    """The run of a preset or file. Ends the command if it cannot work, or if nothing is named."""
    if experiment is None:
        raise stop_with(
            "nothing was started: say what to run (`specdecode run PRESET`). The presets, at published prices:\n"
            f"{offer_lines()}\nstart with account-check: it tries the account on a CPU node"
        )
    chosen = load(experiment, settings=overrides)
    if experiment in preset_names():
        given = {"set": parse_overrides(overrides)} if overrides else {}
        return Wanted(chosen.name, {"experiment": experiment, **given}, chosen)
    return Wanted(chosen.name, {"experiment": chosen.model_dump(mode="json")}, chosen)


def resumed_run(deployment: Deployment, run_id: str) -> Wanted:
    """The run that resumes another. Ends the command if there is no such run, or if it still goes on."""
    text = deployment.store.read(s3_keys.run_key(run_id, "experiment.yaml"))
    try:
        state = deployment.state(run_id)
    except StateDamaged as damage:
        raise stop_with(f"{run_id} cannot be resumed: {damage}") from None
    if text is None or state is None:
        raise stop_with(f"there is no run {run_id} to resume (`specdecode runs` lists them)")
    found = deployment.find(run_id)
    if found is not None and found.status not in TERMINAL:
        raise stop_with(f"{run_id} still runs: wait for its end, or `specdecode stop {run_id}` first")
    try:
        document = parse_yaml(text.decode("utf-8", "replace"), origin=f"experiment.yaml of {run_id}")
        experiment = from_document(without_absent_figures(document))
    except ExperimentError as error:
        raise stop_with(f"{run_id} cannot be resumed: {error}") from None
    return Wanted(f"resume-{run_id}"[:40].rstrip("-"), {"resume": run_id}, experiment)


def inventory_of(deployment: Deployment, experiment: AnyExperiment) -> Inventory:
    """What the bucket has now. If it may not be read, everything counts as missing."""
    prefixes = needed_prefixes(experiment, engine_of(experiment))
    try:
        return read_inventory(deployment.store.s3, bucket=deployment.store.bucket, prefixes=prefixes)
    except ClientError as error:
        complain(f"the bucket cannot be read ({error.response['Error']['Code']}): the estimate counts all as missing")
        return Inventory()


def estimate(deployment: Deployment, experiment: AnyExperiment, inventory: Inventory) -> tuple[Plan, Bill]:
    """The plan, and its bill at this deployment's prices. Raises ExperimentError if the deployment cannot run it."""
    engine, capacity = engine_of(experiment), deployment.capacity
    experiment = with_prompts_of_answers(deployment.store, experiment)
    if problems := rules.check(experiment, engine, capacity):
        raise ExperimentError(problems)
    plan = make_plan(experiment, engine, inventory=inventory, capacity=capacity, sweep=first_steps(experiment))
    return plan, make_bill(plan, capacity)


def consent(wanted: Wanted, plan: Plan, bill: Bill, *, accepted: float | None, yes: bool, as_json: bool) -> None:
    """Show what the run would cost and ask; ends the command without consent. `accepted`: dollars of --accept-cost."""
    if not as_json:
        warnings = (f"warning   {text}" for text in plan.warnings)
        what = _what(wanted, plan)
        say("\n".join([what, *expected_lines(plan.experiment, RESULTS), *cost_lines(bill), *warnings]))
    _refuse_more("it", bill.added, bill, accepted)
    agree("Start it?", yes=yes, ask=not as_json, refused="nothing was started")


def _refuse_more(what: str, most: float, bill: Bill, accepted: float | None) -> None:
    """End the command if it could cost more than the user accepted. `bill` has the deployment's limit."""
    if most > bill.limit(accepted):
        above = f"more than ${bill.accept_above:,.0f}"
        given = above if accepted is None else f"--accept-cost {accepted:g} is not enough"
        raise stop_with(
            f"{what} could cost ${math.ceil(most):,}, if every step lasts until its deadline ({given}): add "
            f"--accept-cost {math.ceil(most)}, or shorten deadlines (--set deadlines.benchmark=60)"
        )


def _what(wanted: Wanted, plan: Plan) -> str:
    if resumed := wanted.request.get("resume"):
        return f"{wanted.experiment.name}, as {resumed} ran it: what that finished is not done again"
    node = plan.experiment.holds_node
    servers = [(len(plan.experiment.variants), "server", " that already run")]
    waves = [(len(plan.waves), "wave", ""), (len(plan.models_to_stage), "model", " to stage")]
    parts = [*waves, (len(plan.compiles_to_do), "artifact", " to compile")] if node else servers
    told = (f"{count} {what}{'' if count == 1 else 's'}{how}" for count, what, how in parts)
    return f"{wanted.experiment.name}: {', '.join(told)}"


def start_on_nodes(
    deployment: Deployment, wanted: Wanted, nodes: int, *, accepted: float | None, yes: bool, as_json: bool
) -> None:
    """Start a run for each node. Nothing is started before all are planned, checked and accepted."""
    there = deployment.capacity.nodes
    if nodes > there:
        has = "one node" if there == 1 else f"{there} nodes"
        raise stop_with(f"this deployment has {has}, not {nodes}: {deploy_with({'nodes': str(nodes)})}")
    inventory = inventory_of(deployment, wanted.experiment)
    _, whole = estimate(deployment, wanted.experiment, inventory)
    parts = plan_parts(wanted.experiment, nodes, inventory=inventory, capacity=deployment.capacity)
    if not as_json:
        show(*parts_tables(wanted.name, parts, whole))
    most = sum(part.bill.added for part in parts)
    _refuse_more("together they", most, whole, accepted)
    agree("Start them?", yes=yes, ask=not as_json, refused="nothing was started")
    token, caller = secrets.token_hex(2), deployment.caller()
    asked = {
        new_run_id(wanted.name, token=f"{token}-{number}"): {
            "experiment": part.plan.experiment.model_dump(mode="json"),
            "accept_cost": math.ceil(part.bill.added),
            **({"started_by": caller} if caller else {}),
        }
        for number, part in enumerate(parts, start=1)
    }
    for request in asked.values():
        deployment.input_of(request)  # none is too large
    started = begin(deployment, asked, quiet=as_json)
    listed = ",".join(started)
    if not as_json:
        say(f"specdecode status {listed}\nspecdecode compare {listed}    # all arms together, once all have ended")
        return
    pairs = zip(started.items(), parts, strict=True)
    bills = ((run_id, arn, part.arms, part.bill.model_dump(mode="json")) for (run_id, arn), part in pairs)
    say_json([dict(zip(("run_id", "execution_arn", "arms", "bill"), each, strict=True)) for each in bills])


def begin(deployment: Deployment, asked: dict[str, dict[str, Any]], *, quiet: bool) -> dict[str, str]:
    """Start these runs, one after another. Returns their ARNs by id.

    If a start fails, or at Ctrl-C, it ends the command with what goes on, what may go on, and how to stop both. By then
    the SDK has asked again: Step Functions starts one run for the same name and input, however often it is asked.
    """
    started: dict[str, str] = {}
    try:
        for run_id, request in asked.items():
            started[run_id] = deployment.start(run_id, request)
            if not quiet:
                say(f"started {run_id}")
    except (ClientError, BotoCoreError, KeyboardInterrupt) as error:
        raise _broken_off(started, [run_id for run_id in asked if run_id not in started][:1], error) from None
    return started


def _broken_off(started: dict[str, str], current: list[str], error: BaseException) -> typer.Exit:
    """End the command. `current`: the run whose start ended so, if there is one."""
    pressed, said = isinstance(error, KeyboardInterrupt), []
    may_run = [] if _refused(error) else current
    if may_run:
        why = "Ctrl-C came before the answer to its start" if pressed else error
        said.append(f"{may_run[0]} may be running: {why}")
    elif current and isinstance(error, ClientError):
        said.append(f"{current[0]} could not be started: {in_a_line(error)}")
    if started:
        said.append(f"these go on: {', '.join(started)}")
    elif not may_run:
        said.append("nothing was started")
    lines = ["; ".join(said), *(f"Does it run? specdecode status {run_id}" for run_id in may_run)]
    if to_stop := [*started, *may_run]:
        lines.append(f"To stop: specdecode stop {','.join(to_stop)}")
    code = 130 if pressed else EXIT_ENVIRONMENT
    return stop_with("\n".join(lines), code, started=started, may_be_running=may_run)


def _refused(error: BaseException) -> bool:
    """Whether AWS answered that it starts nothing, and no earlier request went out whose answer could be lost."""
    if not isinstance(error, ClientError):
        return False
    answer = error.response["ResponseMetadata"]
    return answer["HTTPStatusCode"] < 500 and not answer.get("RetryAttempts")
