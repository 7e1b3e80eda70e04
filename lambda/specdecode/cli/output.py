"""The one way to the terminal: what any command prints is defused here, so that no text can steer the terminal."""

from __future__ import annotations

import sys
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table

from specdecode.escape import json_text, plain, plain_json

EXIT_FAILED, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_UNDECIDED = 1, 2, 3, 4


def say(text: str, *, end: str = "\n") -> None:
    """Text for people on standard output."""
    typer.echo(plain(text) + end, nl=False)


def complain(text: str) -> None:
    """A line or more for people on standard error."""
    typer.echo(plain(text), err=True)


def say_json(value: Any) -> None:
    """JSON for scripts, which a terminal can show all the same."""
    typer.echo(json_text(value, indent=1))


def say_document(document: str) -> None:
    """A JSON document that is text already."""
    typer.echo(plain_json(document), nl=False)


def say_coloured(text: str) -> None:
    """Text that carries colours of ours, its parts defused one by one (`analysis.report.render_terminal`)."""
    typer.echo(text, nl=False)


def show(*items: Table | str) -> None:
    """Tables and texts, without markup: a cell is a cell whatever it says."""
    console = Console(markup=False, emoji=False, highlight=False)
    for item in items:
        for column in item.columns if isinstance(item, Table) else ():
            column.overflow = "fold"
        shown: RenderableType = plain(item) if isinstance(item, str) else item
        console.print(shown, soft_wrap=isinstance(item, str))


def agree(question: str, *, yes: bool, ask: bool, refused: str) -> None:
    """Go on only where `yes` was given or a person at the terminal says yes; else end the command.

    Exit 2 where nobody can be asked (`ask` is false, or there is no terminal), 1 where somebody says no.
    """
    if yes:
        return
    if not (ask and is_interactive()):
        raise stop_with(f'nobody can be asked "{question}" here: give --yes ({refused})', EXIT_USAGE)
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        agreed = False
        complain("")
    if not agreed:
        raise stop_with(refused, EXIT_FAILED)


def is_interactive() -> bool:
    """Whether a person reads what is printed, and can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def stop_with(message: str, code: int) -> typer.Exit:
    """Print `message` on standard error; raise the result to end the command with `code`."""
    complain(message)
    return typer.Exit(code)
