"""Options: those that many commands have, how a command takes dataclasses of them, and how `--help` names values."""

import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer import core

from specdecode.names import STACK as STACK

NAMES = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "int range": "NUMBER", "float range": "NUMBER"}
NAMES |= {"path": "PATH", "file": "FILE", "directory": "FOLDER", "bool": "", "datetime": "TIME"}
_shown = core.TyperOption.display_type


def value_name(parameter: Any, ctx: Any) -> str:
    """`TEXT` for a `str`, nothing for a switch. Choices stay as they are."""
    label = _shown(parameter, ctx).strip("<>")
    label = label.removeprefix("list[").removesuffix("]") if label.startswith("list[") else label
    return NAMES.get(label, label)


def name_values() -> None:
    """Use these names in every command's help. Typer has no setting for it, so its method is replaced."""
    for kind in (core.TyperOption, core.TyperArgument):
        kind.display_type = value_name  # type: ignore[method-assign,assignment]


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """`command` as Typer takes it: each parameter whose type is a dataclass becomes its fields, each an option.

    A field is annotated as Typer wants it (`Annotated[T, typer.Option(…)]`). `PANEL` of a dataclass, if it has one, is
    the panel of --help that shows its options. The command gets the dataclasses.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    def call(**given: Any) -> None:
        made = {
            name: kind(**{each.name: given.pop(each.name) for each in fields(kind)}) for name, kind in groups.items()
        }
        command(**made, **given)

    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))
            continue
        own = get_type_hints(groups[name], include_extras=True)
        for each in fields(groups[name]):
            option = own[each.name].__metadata__[0]
            option.rich_help_panel = getattr(groups[name], "PANEL", None)
            default = Parameter.empty if each.default is MISSING else each.default
            parameters.append(Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=own[each.name]))
    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__dict__["__signature__"] = Signature(parameters)
    return call


def duration(text: str) -> int:
    """Seconds of `90s`, `10m` or `2h`."""
    found = re.fullmatch(r"(\d{1,5})([smh])", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no time: write 90s, 10m or 2h")
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


Stack = Annotated[str, typer.Option(help="Name of the deployed stack.")]
Region = Annotated[
    str | None,
    typer.Option(
        help="AWS region; without it the deployment's (deployment.json), AWS_REGION, AWS_DEFAULT_REGION, the profile's."
    ),
]
Profile = Annotated[str | None, typer.Option(help="Profile of the AWS configuration; without it AWS_PROFILE.")]
