"""The only module that prints. It removes control characters, so that no text can steer the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import typer

from specdecode.escape import json_text, plain, plain_json

if TYPE_CHECKING:
    from rich.table import Table

    from specdecode.analysis import Comparison

AS_JSON: ContextVar[bool] = ContextVar("--json", default=False)
"""Whether the command was called with --json."""
NO_TERMINAL = 132, 40
"""Columns and lines where there is no terminal: enough for the widest table."""
EXIT_FAILED, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_UNDECIDED, EXIT_IMPOSSIBLE = 1, 2, 3, 4, 5


def say(text: str, *, end: str = "\n") -> None:
    """Text for people on standard output."""
    typer.echo(plain(text) + end, nl=False)


def complain(text: str) -> None:
    """A line or more for people on standard error."""
    typer.echo(plain(text), err=True)


def text_table(rows: Sequence[Sequence[str]], *, left: int | None = None) -> str:
    """A table in plain text, with a rule below the first row. Columns from `left` on stand at the right."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    sides = [str.ljust if left is None or n < left else str.rjust for n in range(len(widths))]
    cells = ([side(cell, size) for side, cell, size in zip(sides, row, widths, strict=True)] for row in rows)
    head, *rest = ("  ".join(row).rstrip() for row in cells)
    return "\n".join((head, "-" * len(head), *rest)) + "\n"


def answer(as_json: bool, document: Any, text: Callable[[], str]) -> None:
    """A command's answer: JSON for scripts, or its text."""
    if as_json:
        say_json(document)
    else:
        say(text(), end="")


def say_json(value: Any) -> None:
    """JSON for scripts. It is safe to show in a terminal, too."""
    typer.echo(json_text(value, indent=1))


def say_json_line(value: Any) -> None:
    """A JSON object on one line, for scripts that read while more comes."""
    typer.echo(json_text(value))


def say_document(document: str) -> None:
    """A JSON document that is already text."""
    typer.echo(plain_json(document), nl=False)


def say_report(comparison: Comparison, form: str = "terminal", *, full: bool = False, more: Sequence[str] = ()) -> None:
    """A report for the terminal, a screen of it with `more` below or all, with our own colours; or one of its files."""
    from specdecode.analysis.report import FORMS, render_terminal

    if form != "terminal":
        return say(FORMS[f"report.{form}"](comparison), end="")
    colour, width = sys.stdout.isatty(), shutil.get_terminal_size(NO_TERMINAL).columns
    text = render_terminal(comparison, colour=colour, width=width, brief=not full, more=more)
    typer.echo(text, nl=False)  # its parts are safe


def show(*items: Table | str) -> None:
    """Tables and texts. Markup in them has no effect."""
    from rich.console import Console, RenderableType
    from rich.table import Table

    console = Console(markup=False, emoji=False, highlight=False, width=shutil.get_terminal_size(NO_TERMINAL).columns)
    for item in items:
        for column in item.columns if isinstance(item, Table) else ():
            column.overflow = "fold"
        shown: RenderableType = plain(item) if isinstance(item, str) else item
        console.print(shown, soft_wrap=isinstance(item, str))


def agree(question: str, *, yes: bool, ask: bool, refused: str) -> None:
    """Go on if `yes` or the user agrees; else end the command: with 2 if nobody can be asked, with 1 if refused."""
    if yes:
        return
    if not (ask and is_interactive()):
        raise stop_with(f'nobody can be asked "{question}" here: give --yes ({refused})')
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        agreed = False
        complain("")
    if not agreed:
        raise stop_with(refused, EXIT_FAILED)


def is_interactive() -> bool:
    """Whether a terminal shows what is printed and can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def stop_with(message: str, code: int = EXIT_USAGE, **more: Any) -> typer.Exit:
    """Print `message` on standard error; with --json also as JSON, with `more`. Raise the result to end the command."""
    wrong = code in (EXIT_USAGE, EXIT_ENVIRONMENT)
    complain(f"error: {message}" if wrong else message)
    if AS_JSON.get():
        say_json({"error": message, "exit_code": code, **more})
    return typer.Exit(code)
