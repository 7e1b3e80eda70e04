"""`specdecode manifests`: the Kubernetes objects of a run, for a cluster with SpecDecodeStack or for a bare one."""

from typing import Annotated

import typer

from specdecode import names
from specdecode.cli.options import AsJson, Overrides, Reference, of_options
from specdecode.cli.output import EXIT_USAGE, say, say_json, stop_with

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
        raise stop_with(f"--run-id {run_id!r}: use {what}, and begin with a letter or a digit", EXIT_USAGE)
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
    if as_json:
        say_json({"apiVersion": "v1", "kind": "List", "items": objects})
    elif found:
        say(standalone_view.text(found, plan, context), end="")
    else:
        say(objects_text(objects), end="")
