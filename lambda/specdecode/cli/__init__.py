"""The `specdecode` command."""

from __future__ import annotations

from importlib import import_module

import typer

app = typer.Typer(
    name="specdecode",
    help="Does speculative decoding pay on AWS Trainium2 for your model, your prompts and your load?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _part in ("experiments", "runs", "report", "bench"):
    import_module(f"specdecode.cli.{_part}").register(app)


def main() -> None:
    """Entry point of the console script."""
    app()
