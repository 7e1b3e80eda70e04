"""docs/reference/cli.md: the commands in groups, the names of their options, and exit codes, from the Typer app."""

import ast
import inspect
from typing import Any

import typer
from specdecode import exit_codes
from specdecode.cli import GROUPS, app, name_of

from tools.reference import page, table

INTRODUCTION = """Installed as `.venv/bin/specdecode`. `specdecode COMMAND --help` says what each option means, its
default, and the exit codes of that command. Left out below: every command that talks to AWS takes `--profile`,
`--region` and, if it looks for the deployment, `--stack` (`SpecDecodeStack`); most print JSON for scripts with
`--json`. Without `--profile` credentials are those of the AWS CLI; the region is `AWS_REGION`, else
`AWS_DEFAULT_REGION`, else the profile's. A laptop needs no way to the Kubernetes API. `specdecode --version` prints
the version."""

SAID_ONCE = {"--profile", "--region", "--stack", "--json"}
EXIT_CODES = (
    ("0", "done"),
    (
        "1",
        "a run failed, a benchmark lost too many requests, capacity was not released, or a limit of `gate` is broken",
    ),
    ("2", "the input is wrong: every problem is printed with what to do about it"),
    ("3", "the environment is wrong: credentials, network, no such stack, or `preflight` found what would fail"),
    ("4", "`gate` and `winner` cannot tell: the limit or 1 lies within an interval, or a figure is missing"),
    ("5", "`gate`, `winner` or `advise`: a figure is impossible, or a run is not to be trusted"),
)

PODS = """The programs in the pods end with codes of their own. `specdecode diagnose` translates them; they are in
the pods' descriptions. With those marked permanent the Job is not tried again."""


def render() -> str:
    group = typer.main.get_command(app)
    commands: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        commands |= {name: command} if inner is None else {f"{name} {part}": each for part, each in inner.items()}
    shown = {
        heading: [name for part in parts for name in commands if name.split()[0] == name_of(part)]
        for heading, parts in GROUPS.items()
    }
    groups = [
        f"## {heading}\n\n"
        + table(("command", "what it does", "options"), [_row(name, commands[name]) for name in names])
        for heading, names in shown.items()
    ]
    return page(
        "Command line",
        INTRODUCTION,
        *groups,
        "## Exit codes",
        table(("code", "meaning"), EXIT_CODES),
        "## Exit codes of pods",
        PODS,
        table(("code", "name", "meaning"), _pod_exits()),
    )


def _row(name: str, command: Any) -> tuple[str, str, str]:
    """The command with its arguments, the first paragraph of its help, and its options."""
    arguments = [p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not SAID_ONCE & {*p.opts}]
    said = " ".join(inspect.cleandoc(command.help).split("\n\n")[0].split())
    return f"`{' '.join([name, *arguments])}`", said, " ".join(f"`{p.opts[0]}`" for p in options)


def _pod_exits() -> list[tuple[str, str, str]]:
    """Code, name and docstring of every member of `specdecode.exit_codes.Exit`."""
    (source,) = [node for node in ast.parse(inspect.getsource(exit_codes)).body if isinstance(node, ast.ClassDef)]
    meaning: dict[str, str] = {"OK": "Done."}
    for before, after in zip(source.body, source.body[1:], strict=False):
        if isinstance(before, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            meaning[ast.unparse(before.targets[0])] = str(after.value.value)
    return [
        (str(int(code)), f"`{code.name}`", meaning[code.name] + (" Permanent." if code in exit_codes.PERMANENT else ""))
        for code in exit_codes.Exit
    ]
