"""The `specdecode` command.

Every start, and every press of the tab key, imports the modules of all commands, for their names and options. So at its
top such a module imports only what options are made of. A command imports what does its work when it is called. (A test
holds which modules may be there; `benchmarks/command_start.py` measures what they cost.)
"""

import inspect
import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer._click.exceptions import NoArgsIsHelpError, UsageError
from typer.core import TyperGroup

from specdecode import __version__
from specdecode.cli.options import name_values
from specdecode.cli.output import AS_JSON, EXIT_ENVIRONMENT, EXIT_USAGE, say, stop_with
from specdecode.escape import spell_out
from specdecode.untrusted import plain_words


class Commands(TyperGroup):
    """Words that typer refuses are told as every other wrong input."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        AS_JSON.set("--json" in args)
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            _refuse(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            _refuse(error)


def _refuse(error: UsageError) -> NoReturn:
    """End the command with what is wrong and what to do."""
    if isinstance(error, NoArgsIsHelpError):
        raise error
    message = plain_words(error.format_message()).removesuffix(".")
    command = error.ctx.command_path if error.ctx else "specdecode"
    raise stop_with(f"{message[:1].lower()}{message[1:]}; `{command} -h` shows what it takes", EXIT_USAGE)


app = typer.Typer(
    name="specdecode",
    cls=Commands,
    help="Does speculative decoding pay on AWS Trainium2 for your model, your prompts and your load?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
name_values()
for _part in (
    "experiments",
    "forecast",
    "evidence",
    "manifests",
    "prompts",
    "configure",
    "subscribe",
    "destroy",
    "preflight",
    "runs",
    "logs",
    "ask",
    "instance",
    "report",
    "gate",
    "winner",
    "bench",
):
    import_module(f"specdecode.cli.{_part}").register(app)


GROUPS = {
    "Before a run": "presets validate plan forecast preflight engines schema prompts evidence",
    "Run": "run status logs ask stop diagnose instance manifests",
    "The answer": "report compare advise runs gate winner",
    "Servers that already run": "bench import",
    "Operate the deployment": "configure subscribe capacity destroy",
}
"""Heading of `specdecode --help` -> the commands under it."""
_headed = {name: group for group, names in GROUPS.items() for name in names.split()}


def _paragraphs(docstring: str) -> str:
    """Join each paragraph into one line: the terminal breaks it at its own width. Indented text stays as it is."""
    return "\n\n".join(
        text if text.startswith(" ") else text.replace("\n", " ") for text in inspect.cleandoc(docstring).split("\n\n")
    )


for _group in app.registered_groups:
    _group.rich_help_panel = _headed[_group.name or ""]
for _command in app.registered_commands:
    _command.name = _command.name or getattr(_command.callback, "__name__", "")
    _command.rich_help_panel = _headed[str(_command.name)]
app.registered_commands.sort(key=lambda each: list(_headed).index(each.name or ""))
_groups = [group.typer_instance for group in app.registered_groups]
for _command in (command for part in (app, *filter(None, _groups)) for command in part.registered_commands):
    _command.help = _command.help or _paragraphs(_command.callback.__doc__ or "")


def _print_version(wanted: bool) -> None:
    if wanted:
        say(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the console script. An error of AWS, or of the way to it, becomes one line and exit status 3."""
    for stream in (sys.stdout, sys.stderr):
        spell_out(stream)
    try:
        app()
    except Exception as error:
        from specdecode.cli.aws_errors import in_a_line

        told = in_a_line(error)
        if told is None:
            raise
        sys.exit(stop_with(told, EXIT_ENVIRONMENT).exit_code)
