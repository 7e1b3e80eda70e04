"""docs/reference/cli.md: every command, argument, option and exit code, from the Typer app."""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from typing import Any

import typer
from specdecode import exit_codes
from specdecode.cli import GROUPS, app

from tools.reference import page, table

INTRODUCTION = """Installed as `.venv/bin/specdecode`. `specdecode COMMAND --help` says the same as this page. Said
once, and left out below: every command that talks to AWS takes `--profile`, `--region` and, if it looks for the
deployment, `--stack` (`SpecDecodeStack`); most commands print JSON for scripts with `--json`. Without `--profile`
credentials are those of the AWS CLI; the region is `AWS_REGION`, else `AWS_DEFAULT_REGION`, else the profile's. A
laptop needs no way to the Kubernetes API. A repeatable option is given once for each item. `specdecode --version`
prints the version."""

SAID_ONCE = {"--profile", "--region", "--stack", "--json"}
EXIT_CODES = (
    ("0", "done"),
    ("1", "a run failed, a benchmark lost too many requests, or capacity could not be released"),
    ("2", "the input is wrong: every problem is printed with what to do about it"),
    ("3", "the environment is wrong: credentials, network, no such stack, or `preflight` found what would fail"),
)

PODS = """The programs in the pods end with codes of their own. `specdecode diagnose` translates them; they are in
the pods' descriptions. With those marked permanent the Job is not tried again."""


def render() -> str:
    """The page."""
    group = typer.main.get_command(app)
    commands: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        commands |= {name: command} if inner is None else {f"{name} {part}": each for part, each in inner.items()}
    shown = {
        heading: [name for part in names.split() for name in commands if name.split()[0] == part]
        for heading, names in GROUPS.items()
    }
    overview = [
        f"**{heading}**\n\n"
        + table(
            ("command", "what it does"),
            [(f"[`{name}`](#specdecode-{name.replace(' ', '-')})", _help(commands[name])[0]) for name in names],
        )
        for heading, names in shown.items()
    ]
    return page(
        "Command line",
        INTRODUCTION,
        *overview,
        *(_command(name, commands[name]) for names in shown.values() for name in names),
        "## Exit codes",
        table(("code", "meaning"), EXIT_CODES),
        "## Exit codes of pods",
        PODS,
        table(("code", "name", "meaning"), _pod_exits()),
    )


def _command(name: str, command: Any) -> str:
    usage = command.get_usage(typer.Context(command, info_name=f"specdecode {name}"))
    parts = [f"## specdecode {name}", *_help(command), f"    {usage.removeprefix('Usage: ')}"]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not SAID_ONCE & {*p.opts}]
    if arguments:
        rows = [(f"`{p.metavar or p.name}`", _default(p), p.help or "") for p in arguments]
        parts.append(table(("argument", "default", "meaning"), rows))
    if options:
        rows = [(_names(p), _type(p), _default(p), p.help or "") for p in options]
        parts.append(table(("option", "value", "default", "meaning"), rows))
    return "\n\n".join(parts)


def _help(command: Any) -> list[str]:
    """The paragraphs of a docstring. An indented one stays code."""
    return [
        block if block.startswith("    ") else " ".join(block.split())
        for block in inspect.cleandoc(command.help).split("\n\n")
    ]


def _names(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _type(option: Any) -> str:
    """The value of an option: `number`, `PATH=VALUE`, `usage or neuron or stock`. Empty for a switch."""
    if getattr(option, "is_bool_flag", False):
        return ""
    if option.metavar:
        return f"`{option.metavar}`"
    kind = option.type_descriptor.display_name if hasattr(option.type_descriptor, "display_name") else None
    kind = kind or option.display_type(ctx=None).strip("<>")
    if kind.startswith("list["):
        kind = f"{kind[5:-1]}, repeatable"
    words = {"str": "text", "int": "integer", "float": "number", "Path": "path", "int range": "integer"}
    words["float range"] = "number"
    for known, word in words.items():
        kind = word + kind[len(known) :] if kind in (known, f"{known}, repeatable") else kind
    limits = [f"{sign} {value:g}" for sign, value in (("≥", option.min), ("≤", option.max)) if value is not None]
    return " ".join([kind.replace("|", " or "), *limits])


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value is False or value == []:
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


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
