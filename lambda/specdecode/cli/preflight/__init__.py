"""`specdecode preflight`: what would make a deployment or a run fail, looked up without spending anything.

Why it is so: ADR 113.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from specdecode.cli.options import STACK, Profile, Region, Stack
from specdecode.cli.output import EXIT_ENVIRONMENT, EXIT_USAGE, complain, say, say_json, show, stop_with
from specdecode.cli.preflight import account, pulled
from specdecode.cli.preflight.check import Ask, Check, looked
from specdecode.cli.preflight.checks import Checks
from specdecode.cli.runs_deployment import Deployment
from specdecode.escape import line
from specdecode.experiment import Experiment, ExperimentError, assets_dir, load, load_engine
from specdecode.experiment.deployment_facts import DeploymentFacts
from specdecode.names import DEFAULT_PRESET


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(preflight)


def preflight(
    experiment: Annotated[
        str, typer.Argument(metavar="PRESET|FILE", help="A preset's name or a YAML file.")
    ] = DEFAULT_PRESET,
    settings: Annotated[
        list[str] | None,
        typer.Option("-c", metavar="KEY=VALUE", help="A setting of the deployment to come, as for `cdk deploy`."),
    ] = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="Write the digests that the registry has now into the engine's file.")
    ] = False,
    stack: Stack = STACK,
    region: Region = None,
    profile: Profile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Check what a first deployment, or a run, needs: credentials, quotas, capacity, builds, alerts, models.

    Without a deployed stack, or with -c, it checks what `cdk deploy` would make from cdk.json and the settings given
    here. With a stack it checks that stack. It spends nothing, and it changes nothing except with --pin.

    Something that is missing, expired or too small is a failure. Something that these credentials may not look at is a
    warning.

    Exit codes: 0 nothing would fail, 2 the experiment or a setting cannot work, 3 something would fail.
    """
    try:
        loaded = load(experiment)
    except ExperimentError as error:
        raise stop_with(str(error), EXIT_USAGE) from None
    deployment = Deployment(stack=stack, region=region, profile=profile)
    found = _checked(deployment, loaded, settings or [], quiet=as_json)
    if as_json:
        say_json([vars(check) for check in found])
    else:
        show(table(found))
        failed = [check for check in found if check.verdict == "fail"]
        say(f"{len(failed)} of {len(found)} would fail" if failed else "nothing that was checked would fail")
    if pin:
        _pin(loaded, deployment)
    raise typer.Exit(EXIT_ENVIRONMENT if _fails(found) else 0)


def refuse_a_run_that_would_fail(deployment: Deployment, experiment: Experiment) -> None:
    """Checks before a run is started. Ends the command with 3 and every problem if the run would fail."""
    facts = account.facts_of_stack(deployment.outputs, stack=deployment.stack)
    ask = _ask(deployment, facts, deployed=True)
    found = list(Checks(ask=ask, stack=deployment, experiment=experiment).before_a_run())
    _complain_of(found)
    if _fails(found):
        raise stop_with("nothing was started (`specdecode preflight` checks the rest too)", EXIT_ENVIRONMENT)


def table(found: list[Check]) -> Table:
    """A row for each check. What to do is below what was found."""
    rows = Table(box=None, pad_edge=False, show_header=False)
    for style in ("bold", "", ""):
        rows.add_column(style=style, overflow="fold")
    for check in found:
        rows.add_row(check.verdict, line(check.name), line(check.detail))
        if check.verdict != "ok":
            rows.add_row("", "", f"-> {line(check.fix)}")
    return rows


def _checked(deployment: Deployment, experiment: Experiment, settings: list[str], *, quiet: bool) -> list[Check]:
    """Checks credentials first, then the stack: without them the other checks could only repeat that. Settings need
    neither.
    """
    accounts: list[str] = []
    deployed: list[DeploymentFacts] = []
    found = looked("credentials", lambda: account.credentials(deployment.client, accounts))
    if not _fails(found):
        found += looked("stack", lambda: _stack(deployment, deployed))
    if _fails(found) and not settings:
        return found
    try:
        facts = deployed[0] if deployed and not settings else account.facts_of_checkout(settings)
    except typer.Exit:
        _complain_of(found)
        raise
    if _fails(found):
        return [*found, Check("settings", "ok", f"{', '.join(settings)} can be deployed")]
    found += account.place(facts, account=accounts[0] if accounts else None, region=deployment.session.region_name)
    ask = _ask(deployment, facts, deployed=bool(deployed))
    console = Console(stderr=True)
    with console.status("") if console.is_terminal and not quiet else nullcontext() as status:
        tell = status.update if status is not None else lambda _: None
        checks = Checks(ask=ask, stack=deployment, experiment=experiment, say=tell)
        return [*found, *checks.everything()]


def _complain_of(found: list[Check]) -> None:
    for check in found:
        if check.verdict != "ok":
            complain(f"{check.verdict}: {check.name}: {check.detail}\n      {check.fix}")


def _fails(found: list[Check]) -> bool:
    return any(check.verdict == "fail" for check in found)


def _stack(deployment: Deployment, deployed: list[DeploymentFacts]) -> Iterator[Check]:
    """Checks whether there is a stack. Its facts are put into `deployed`."""
    if outputs := deployment.found_outputs:
        deployed.append(account.facts_of_stack(outputs, stack=deployment.stack))
    yield Check("stack", "ok", f"{deployment.stack} is {'deployed' if outputs else 'not deployed yet'}")


def _ask(deployment: Deployment, facts: DeploymentFacts, *, deployed: bool) -> Ask:
    return Ask(
        client=deployment.client,
        region=deployment.session.region_name,
        facts=facts,
        deployed=deployed,
        now=datetime.now(UTC),
    )


def _pin(experiment: Experiment, deployment: Deployment) -> None:
    """Write the digests, and say what follows from it."""
    engine = load_engine(experiment.images_of)
    fields = {
        field: value
        for _, fields in pulled.images(engine, ask=pulled.http, client=deployment.client)
        for field, value in fields.items()
    }
    file = assets_dir() / "engines" / f"{engine.name}.yaml"
    written = pulled.pin(file, fields)
    if written:
        complain(f"wrote {', '.join(written)} into {file}; deploy again, and the next run compiles anew")
    else:
        complain(f"{file}: nothing to write")
