"""`specdecode preflight`: what would make a deployment or a run fail, looked up without spending anything (ADR 113)."""

from typing import Annotated

import typer

from specdecode.cli.options import WHERE, AsJson, Where
from specdecode.cli.output import EXIT_ENVIRONMENT, say, say_json, show

DEFAULT = "qwen3-32b-native"
"""A large node on an engine with support, and weights that need no token."""


def preflight(
    experiment: Annotated[str, typer.Argument(metavar="PRESET|FILE", help="A preset's name or a YAML file.")] = DEFAULT,
    settings: Annotated[
        list[str] | None, typer.Option("-c", metavar="KEY=VALUE", help="A setting of the deployment to come.")
    ] = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="Write the digests that the registry has now into the engine's file.")
    ] = False,
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """Check what a first deployment, or a run, needs: credentials, quotas, capacity, builds, alerts, models.

    Without a deployed stack, or with -c, it checks what `cdk deploy` would make of the settings that are kept
    (`specdecode configure`) and of those given here. It changes nothing except with --pin. What these credentials may
    not look at is a warning.

    Exit codes: 0 nothing would fail, 2 the experiment or a setting cannot work, 3 something would fail.
    """
    from specdecode.cli.preflight import checks
    from specdecode.experiment import load

    chosen = load(experiment)
    deployment = where.deployment()
    found = checks.checked(deployment, chosen, settings or [], quiet=as_json)
    if as_json:
        say_json([vars(check) for check in found])
    else:
        show(checks.table(found))
        failed = [check for check in found if check.verdict == "fail"]
        say(f"{len(failed)} of {len(found)} would fail" if failed else "nothing that was checked would fail")
    if pin:
        checks.pin(chosen, deployment)
    raise typer.Exit(EXIT_ENVIRONMENT if checks.fails(found) else 0)
