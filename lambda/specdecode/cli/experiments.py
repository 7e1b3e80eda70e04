"""Commands of the `specdecode` command line."""

import typer


def register(app: typer.Typer) -> None:
    """Add this part's commands to `app`."""
