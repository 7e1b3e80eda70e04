"""Commands about experiments: see them, check them, plan them. None of them needs an AWS account."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from specdecode.cli.options import RESULTS, AsJson, Overrides, Profile, Reference, Region, Runs, of_options
from specdecode.cli.output import say, say_json, show, stop_with
from specdecode.escape import counted
from specdecode.giving_back import LONGEST_RUN_HOURS
from specdecode.names import MOST_NODES
from specdecode.untrusted import MOST_DOLLARS

if TYPE_CHECKING:
    from specdecode.experiment import Capacity, Engine
    from specdecode.experiment.model import AnyExperiment
    from specdecode.planning import Bill, Inventory, Plan

Ami = Annotated[str | None, typer.Option(help="Release of the node's EKS AMI to check against, e.g. v20260625.")]


def presets(as_json: AsJson = False) -> None:
    """List the experiments that ship with specdecode, with their list price, their question and their arms.

    Those whose engine is supported come first, those for your own machine last.
    """
    from specdecode.cli import experiments_view as view
    from specdecode.experiment import load_preset, preset_names
    from specdecode.planning.offers import offers

    offered = {offer.name: offer for offer in offers()}
    names = dict.fromkeys([*offered, *preset_names()])
    found = [view.summary(load_preset(name), offered.get(name)) for name in names]
    if as_json:
        say_json(found)
    else:
        show(view.presets_table(found))


def validate(reference: Reference, overrides: Overrides = None, ami: Ami = None, as_json: AsJson = False) -> None:
    """Check an experiment against the engine, the deployment's node (deployment.json) and its own rules, and print
    every problem at once.

    Exit codes: 0 it can run, 2 it cannot (each problem is printed with its rule, its source and what to do).
    """
    from specdecode.experiment import engine_of, load
    from specdecode.planning.warnings import doubts

    experiment = load(reference, settings=overrides or [], capacity=_capacity(ami=ami))
    where = experiment.served_by or "servers that already run"
    engine = engine_of(experiment)
    warnings = doubts(experiment, engine)
    if as_json:
        valid = {"valid": True, "experiment": experiment.model_dump(mode="json"), "problems": []}
        say_json({**valid, "warnings": warnings})
    else:
        say(f"{experiment.name}: valid ({counted(len(experiment.variants), 'variant')} on {where})")
        for warning in warnings:
            say(f"warning: {warning}")


def plan(
    reference: Reference,
    overrides: Overrides = None,
    ami: Ami = None,
    price: Annotated[
        float | None,
        typer.Option(
            min=0, max=MOST_DOLLARS, help="US dollars for an hour of the node. Default: the deployment's, else AWS's."
        ),
    ] = None,
    block_start: Annotated[datetime | None, typer.Option(help="Start of your Capacity Block (UTC).")] = None,
    block_end: Annotated[datetime | None, typer.Option(help="End of your Capacity Block (UTC).")] = None,
    longest_run_hours: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="12 hours later the backstop ends the node. "
            f"Default: the deployment's setting, else {LONGEST_RUN_HOURS}.",
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, max=MOST_NODES, help="Show what `run --nodes` would start.")] = 1,
    bucket: Annotated[
        str | None, typer.Option(help="Artifact bucket: look which models, artifacts and answers it has.")
    ] = None,
    region: Region = None,
    profile: Profile = None,
    runs: Runs = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Show what a run would do, how long it would hold the node and what it would cost. Starts nothing.

    Node, price and block are the deployment's (deployment.json), unless options say others or --region another place.

    Without --bucket every model and artifact counts as missing; what is there has the start of its hash beside it. Exit
    codes: 0 planned, 2 the experiment cannot run, 3 the bucket cannot be read.
    """
    from specdecode.analysis.advice.sweep import first_steps
    from specdecode.cli import experiments_view as view
    from specdecode.experiment import engine_of, load
    from specdecode.planning import Inventory, make_bill, make_plan
    from specdecode.planning.several_nodes import plan_parts

    start, end = _utc(block_start), _utc(block_end)
    if start and not (end and start < end):
        raise stop_with("--block-start: give --block-end too, a later time: the block's window is checked by both")
    window = {"block_start": start or datetime.now(UTC), "block_end": end} if end else {}
    given = {"ami": ami, "price_per_node_hour": price, "longest_run_hours": longest_run_hours}
    capacity = _capacity(region, **given, **window)
    experiment = load(reference, settings=overrides or [], capacity=capacity)
    if price is not None:  # of the experiment's node, which may be another than the deployment's
        capacity = capacity.of(experiment.node).model_copy(update={"price_per_node_hour": price})
    engine, inventory = engine_of(experiment), Inventory()
    if bucket:
        experiment, inventory = _known(experiment, engine, bucket, region=region, profile=profile)
    parts = plan_parts(experiment, nodes, inventory=inventory, capacity=capacity) if nodes > 1 else ()
    planned = make_plan(experiment, engine, inventory=inventory, capacity=capacity, sweep=first_steps(experiment))
    bill = make_bill(planned, capacity)
    if parts and as_json:
        say_json([_document(part.plan, part.bill) for part in parts])
    elif parts:
        show(*view.parts_tables(experiment.name, parts, bill))
    elif as_json:
        say_json(_document(planned, bill))
    else:
        show(*view.plan_tables(planned, bill, runs))


def _document(plan: Plan, bill: Bill) -> dict[str, Any]:
    return {**plan.model_dump(mode="json"), "bill": bill.model_dump(mode="json")}


def engines(
    name: Annotated[str | None, typer.Argument(help="Show this engine whole.")] = None, as_json: AsJson = False
) -> None:
    """List the container images that can serve, with what each can do. With a name, show its file as it is read."""
    from specdecode.cli import experiments_view as view
    from specdecode.experiment import engine_names, load_engine

    found = [load_engine(one) for one in ([name] if name else engine_names())]
    if as_json:
        shown: list[Any] = [engine.model_dump(mode="json") for engine in found]
        say_json(shown[0] if name else shown)
    else:
        show(*([view.engine_text(found[0])] if name else view.engines_tables(found)))


def schema(
    document: Annotated[Literal["experiment", "engine"], typer.Argument(help="Which document.")] = "experiment",
) -> None:
    """Print the JSON Schema of an experiment (or engine) file. Editors complete and check such a file with it."""
    from specdecode.experiment import Engine
    from specdecode.experiment.schema import experiment_schema

    say_json(experiment_schema() if document == "experiment" else Engine.model_json_schema())


def _capacity(region: str | None = None, **given: Any) -> Capacity:
    """What the deployment keeps, but for what options give."""
    from specdecode.experiment.capacity import Capacity, kept_capacity

    told = {key: value for key, value in given.items() if value is not None}
    return of_options(Capacity, **kept_capacity(region).model_dump(exclude_unset=True) | told)


def _utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _known(
    experiment: AnyExperiment, engine: Engine, bucket: str, *, region: str | None, profile: str | None
) -> tuple[AnyExperiment, Inventory]:
    """The experiment with the prompts of the run that its `answers` name, and what the bucket has for it."""
    from specdecode.cli.runs_deployment import session_of
    from specdecode.planning import needed_prefixes, read_inventory
    from specdecode.runs.answered_run import with_prompts_of_answers
    from specdecode.store import Store

    prefixes = needed_prefixes(experiment, engine)
    s3 = session_of(region, profile).client("s3")
    experiment = with_prompts_of_answers(Store(s3=s3, bucket=bucket), experiment)
    return experiment, read_inventory(s3, bucket=bucket, prefixes=prefixes)
