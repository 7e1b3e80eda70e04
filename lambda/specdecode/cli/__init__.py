"""The `specdecode` command."""

from __future__ import annotations

import sys
from importlib import import_module

import typer
from botocore.exceptions import BotoCoreError, ClientError

app = typer.Typer(
    name="specdecode",
    help="Does speculative decoding pay on AWS Trainium2 for your model, your prompts and your load?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _part in ("experiments", "runs", "report", "bench"):
    import_module(f"specdecode.cli.{_part}").register(app)

EXIT_ENVIRONMENT = 3


def main() -> None:
    """Entry point of the console script. What AWS refuses, and that it cannot be reached, is one line and exit 3."""
    try:
        app()
    except (BotoCoreError, ClientError) as error:
        typer.echo(f"{error} (check AWS_PROFILE, AWS_REGION, and what the credentials allow)", err=True)
        sys.exit(EXIT_ENVIRONMENT)
