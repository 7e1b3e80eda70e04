"""Objects for `kubectl apply -f -`: those of a run (`manifests`), and those of a run's winner (`winner`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from specdecode import names
from specdecode.cli.options import WHERE, AsJson, Overrides, Reference, Run, Where, of_options
from specdecode.cli.output import EXIT_FAILED, EXIT_IMPOSSIBLE, EXIT_UNDECIDED, answer, stop_with
from specdecode.escape import line
from specdecode.names import NAMESPACE

if TYPE_CHECKING:
    from specdecode.analysis import Comparison
    from specdecode.experiment.model import ServedExperiment
    from specdecode.manifests import KubeObject


MOST_NAME = 50


def winner(
    run: Run = None,
    arm: Annotated[str | None, typer.Option(metavar="NAME", help="This arm instead of the recommended one.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the Deployment and its Service. Default: the arm's name.")
    ] = None,
    replicas: Annotated[int, typer.Option(min=0, max=1000, help="How many servers. Each takes the arm's devices.")] = 1,
    where: Where = WHERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print a List for scripts.")] = False,
) -> None:
    """Print the Deployment and the Service that serve a run's winner in production, for `kubectl apply -f -`.

    They serve the compiled artifact with the run's container, claim, mounts, probes and checks, without anything that
    belongs to the run. You choose how many run, and when.

    Exit codes: 0 printed, 1 no arm is to be used, 2 bad input or servers that already ran, 3 AWS cannot be reached, 4
    the run cannot tell, 5 it is not to be trusted.
    """
    from specdecode.analysis.results.pairs import Action
    from specdecode.analysis.texts.decide import decided
    from specdecode.cli.experiments_view import objects_text
    from specdecode.cli.report_sources import find
    from specdecode.experiment.model import ServedExperiment

    deployment = where.deployment()
    comparison = find(run, deployment=deployment)
    decision = decided(comparison)
    if not arm and decision.action is not Action.USE:
        ends = {Action.MEASURE: EXIT_UNDECIDED, Action.DISTRUST: EXIT_IMPOSSIBLE}
        said = comparison.recommendation or "Nothing was compared."
        told = f"{comparison.run_id} has no winner ({decision.action.value}). {said}"
        if decision.action is Action.DISTRUST:
            told += f" {decision.why}."
        raise stop_with(f"{told} To print an arm all the same: --arm NAME", ends.get(decision.action, EXIT_FAILED))
    chosen = arm or decision.serve or ""
    experiment = comparison.experiment
    known = [variant.name for variant in experiment.variants]
    if chosen not in known:
        raise stop_with(f"{comparison.run_id} has no arm {chosen}: {', '.join(known)}")
    if not isinstance(experiment, ServedExperiment) or experiment.name == "llmperf-import":
        raise stop_with(f"{chosen} is a server that already ran: how it is deployed is not known here")
    called = (name or f"{experiment.name}-{chosen}").lower().replace(".", "-").replace("_", "-")[:MOST_NAME].strip("-")
    stored = {
        urlsplit(folder).path.lstrip("/"): content
        for each in comparison.context.served
        for folder, content in each.contents.items()
    }
    claims = "" if run and Path(run).exists() else deployment.claims
    objects = objects_of(experiment, chosen, name=called, replicas=replicas, stored=stored, claims=claims)
    head = "".join(f"# {line(text)}\n" for text in _head(comparison, chosen, called))
    answer(as_json, {"apiVersion": "v1", "kind": "List", "items": objects}, lambda: head + objects_text(objects))


def objects_of(
    experiment: ServedExperiment,
    arm: str,
    *,
    name: str,
    replicas: int,
    stored: Mapping[str, str] | None = None,
    claims: str = "",
) -> list[KubeObject]:
    """Deployment and Service of an arm, called `name`. `stored`: folders of the run, with their hashes."""
    from specdecode.experiment import Capacity, engine_of
    from specdecode.experiment.model import Sweep
    from specdecode.manifests import RenderContext
    from specdecode.manifests.serving import production
    from specdecode.planning import Inventory, make_plan

    contents = {prefix: content for prefix, content in (stored or {}).items() if content}
    context = RenderContext.without_bucket("production", region="us-east-2", claims=claims, contents=contents)
    every = experiment.model_copy(update={"sweep": Sweep.GRID})  # an adaptive sweep's plan has its first arms alone
    inventory, free = Inventory(prefixes=frozenset(stored or ())), Capacity(price_per_node_hour=0)
    plan = make_plan(every, engine_of(every), inventory=inventory, capacity=free)
    return production(plan, arm, name=name, replicas=replicas, ctx=context)


def _head(comparison: Comparison, chosen: str, name: str) -> Iterator[str]:
    """What the user must know before applying it."""
    from specdecode.analysis.loads.k_by_load import in_words
    from specdecode.analysis.texts.decide import decided
    from specdecode.manifests.addresses import ENTRY

    said = comparison.recommendation or comparison.answer
    yield f"{chosen} of run {comparison.run_id}, which decided: {decided(comparison).action.value}. {said}"
    artifact = next((item.where for item in comparison.context.served if item.variant == chosen), "")
    if artifact:
        yield f"Artifact: {artifact} (keep it; the server refuses to start without it)"
    for schedule in comparison.schedule:
        yield in_words(schedule)
        if schedule.paste:
            yield f"In --speculative-config: {schedule.paste}"
    yield (
        f"First the key: kubectl create secret generic {name} --namespace {NAMESPACE} "
        f'--from-literal={ENTRY}="$(openssl rand -hex 32)"'
    )
    yield (
        "Nodes of this instance type must be yours: the pipeline's pool has none while nothing runs, and its watchdog "
        "takes them away. The claim template, the volumes and the service account are SpecDecodeStack's."
    )
    yield f"Namespace {NAMESPACE} denies by default: allow your clients to port 8000 with a NetworkPolicy of yours."
    yield "Replicas, rollout and scaling are yours; two servers on one node need the devices of both."


ON_CPU = {
    "field": "compile.on",
    "rule": "complete-compiles-on-the-node",
    "message": "--complete compiles on the node that serves: without the pipeline, an artifact from a CPU node that "
    "does not load would not be compiled again",
    "fix": "--set compile.on=accelerator, or leave --complete out and run it with the pipeline",
}


def manifests(
    reference: Reference,
    overrides: Overrides = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Print all that a bare cluster with the DRA driver needs, with the commands."),
    ] = False,
    bucket: Annotated[str, typer.Option(help="Artifact bucket.")] = "YOUR-BUCKET",
    region: Annotated[str, typer.Option(help="Region of the bucket.")] = "us-east-2",
    bundle_uri: Annotated[str, typer.Option(help="Address of the specdecode bundle.")] = "s3://YOUR-BUCKET/bundle.zip",
    bundle_sha256: Annotated[str, typer.Option(help="SHA-256 of the bundle.")] = "0" * 64,
    run_id: Annotated[str, typer.Option(help="Id of the run, in names and labels.")] = "manual",
    as_json: AsJson = False,
) -> None:
    """Print every Kubernetes object of a run, for `kubectl apply -f -` (YAML; with --json a List).

    The objects need the namespace, service accounts, claims and volumes of SpecDecodeStack. Apply them in order: the
    arms of a wave can be served only after their artifacts are compiled. Each Job has a Secret of its name with `YOURS`
    in it. Put credentials that may use the bucket there, as credentials.json, in the form of an AWS credential_process.

    With --complete the objects need only a bucket, and nothing runs until you start it. Comments say what you must fill
    in, and list the commands in order. An adaptive sweep then measures all its arms.
    """
    from specdecode.cli import standalone_view
    from specdecode.cli.experiments_view import objects_text
    from specdecode.experiment import Capacity, engine_of, load
    from specdecode.experiment.model import CompileOn, Sweep
    from specdecode.experiment.problems import ExperimentError, Problem
    from specdecode.manifests import RenderContext, all_objects
    from specdecode.manifests.standalone import standalone
    from specdecode.planning import Inventory, make_plan

    if not names.is_run_id(run_id):
        what = f"letters, digits, dots, underscores and hyphens, at most {names.LONGEST_RUN_ID} together"
        raise stop_with(f"--run-id {run_id!r}: use {what}, and begin with a letter or a digit")
    experiment = load(reference, settings=overrides or [])
    if complete and experiment.compile.on is CompileOn.CPU:
        raise ExperimentError([Problem(**ON_CPU)])
    given = {"bundle_uri": bundle_uri, "bundle_sha256": bundle_sha256, "region": region}
    context = of_options(RenderContext, run_id=run_id, bucket=bucket, **given)
    free = Capacity(price_per_node_hour=0)  # no object knows a price
    if complete and experiment.sweep is Sweep.ADAPTIVE:
        experiment = experiment.model_copy(update={"sweep": Sweep.GRID})  # nobody is there to ask the advisor
    plan = make_plan(experiment, engine_of(experiment), inventory=Inventory(), capacity=free)
    found = standalone(plan, context) if complete else None
    objects = list(found.objects) if found else all_objects(plan, context)
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    answer(as_json, listed, lambda: standalone_view.text(found, plan, context) if found else objects_text(objects))
