"""The `specdecode` command.

Every start, and every press of the tab key, imports the modules of all commands, for their names and options. So at its
top such a module imports only what options are made of. A command imports what does its work when it is called. (A test
holds which modules may be there; `benchmarks/command_start.py` measures what they cost.)
"""

import errno
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer._click.exceptions import NoArgsIsHelpError, UsageError
from typer.core import TyperCommand, TyperGroup, TyperOption

from specdecode import __version__
from specdecode.cli import (
    ask,
    bench,
    configure,
    destroy,
    evidence,
    experiments,
    forecast,
    gate,
    instance,
    logs,
    objects,
    preflight,
    prompts,
    report,
    report_imports,
    runs,
)
from specdecode.cli.options import flat
from specdecode.cli.output import AS_JSON, EXIT_ENVIRONMENT, EXIT_USAGE, complain, say, stop_with
from specdecode.escape import spell_out
from specdecode.untrusted import WrongInput, plain_words

Part = Callable[..., None] | typer.Typer
GROUPS: dict[str, tuple[Part, ...]] = {
    "Before a run": (
        *(experiments.presets, experiments.validate, experiments.plan, forecast.forecast, preflight.preflight),
        *(experiments.engines, experiments.schema, prompts.app, evidence.app),
    ),
    "Run": (
        *(runs.run, runs.status, logs.logs, ask.ask, runs.stop, runs.diagnose, instance.instance, objects.manifests),
    ),
    "The answer": (report.report, report.compare_runs, report.advise, report.runs, gate.gate, objects.winner),
    "Servers that already run": (bench.bench, report_imports.import_results),
    "Operate the deployment": (configure.configure, configure.subscribe, runs.capacity, destroy.destroy),
}
"""Heading of `specdecode --help` -> the commands under it."""


class Commands(TyperGroup):
    """What a user did wrong, or AWS refused, is told in one style: a message, and an exit code."""

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
        except WrongInput as error:
            raise stop_with(str(error), EXIT_USAGE, **error.document()) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            from specdecode.cli.aws_errors import in_a_line

            if (told := in_a_line(error)) is None:
                if isinstance(error, OSError) and error.filename:
                    told = f"{error.filename}: {error.strerror}: name another path, or mend this one"
                    raise stop_with(told, EXIT_USAGE) from None
                if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                    complain(f"error: not all was written: {error.strerror}")  # JSON would not be, either
                    raise typer.Exit(EXIT_ENVIRONMENT) from None
                raise
            raise stop_with(told, EXIT_ENVIRONMENT) from None


class Once(TyperCommand):
    """A command that takes an option with a value once, if the option is not for several values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        single = [each for each in order if isinstance(each, TyperOption) and not (each.is_flag or each.multiple)]
        twice = dict.fromkeys(each.opts[0] for each in single if single.count(each) > 1)
        bounded = [each for each in order if getattr(each, "min", None) is not None]
        nan = dict.fromkeys(each.opts[0] for each in bounded if "nan" in str(values[each.name]).lower())
        if ctx.resilient_parsing or any(each.is_eager for each in order):  # --help ends all else
            return super().parse_args(ctx, args)
        if twice:
            raise UsageError(f"Given twice, and only one value counts: {', '.join(twice)}: leave the others out", ctx)
        if nan:  # it is neither more nor less than a bound
            raise UsageError(f"Invalid value for {', '.join(nan)}: must be a number", ctx)
        return super().parse_args(ctx, args)


def _refuse(error: UsageError) -> NoReturn:
    """End the command with what is wrong and what to do."""
    if isinstance(error, NoArgsIsHelpError):
        raise error
    message = plain_words(error.format_message()).removesuffix(".")
    command = error.ctx.command_path if error.ctx else "specdecode"
    raise stop_with(f"{message[:1].lower()}{message[1:]}; `{command} -h` shows what it takes")


app = typer.Typer(
    name="specdecode",
    cls=Commands,
    help="Does speculative decoding pay on AWS Trainium2 for your model, your prompts and your load?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def name_of(part: Part) -> str:
    """A command's name: its function's, up to the first `_`."""
    return str(part.info.name) if isinstance(part, typer.Typer) else part.__name__.partition("_")[0]


def _add(to: typer.Typer, parts: Sequence[Part], heading: str | None = None) -> None:
    for part in parts:
        if isinstance(part, typer.Typer):
            to.add_typer(part, rich_help_panel=heading)
        else:
            told = _paragraphs(part.__doc__ or "")
            shows_help = part is bench.bench  # without arguments
            to.command(name_of(part), cls=Once, help=told, rich_help_panel=heading, no_args_is_help=shows_help)(
                flat(part)
            )


def _paragraphs(docstring: str) -> str:
    """Join each paragraph into one line: the terminal breaks it at its own width. Indented text stays as it is."""
    return "\n\n".join(
        text if text.startswith(" ") else text.replace("\n", " ") for text in inspect.cleandoc(docstring).split("\n\n")
    )


_add(prompts.app, prompts.COMMANDS)
_add(evidence.app, evidence.COMMANDS)
for _heading, _parts in GROUPS.items():
    _add(app, _parts, _heading)


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
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        spell_out(stream)
    app()
