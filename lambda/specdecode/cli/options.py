"""Options that many commands have, what the shell offers for them, and how a command takes dataclasses of them.

No completion uses the network or reads a preset: names of files are enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer import core

from specdecode.assets import CASE_GROUPS, case_names, preset_names
from specdecode.cli.output import stop_with
from specdecode.names import STACK
from specdecode.untrusted import MOST_DOLLARS, in_words, quoted

if TYPE_CHECKING:
    from specdecode.cli.runs_deployment import Deployment

NAMES = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "int range": "NUMBER", "float range": "NUMBER"}
NAMES |= {"path": "PATH", "file": "FILE", "directory": "FOLDER", "bool": "", "datetime": "TIME"}
_shown = core.TyperOption.display_type
RESULTS = Path("results")
"""The folder of runs, unless --out names another."""


def value_name(parameter: Any, ctx: Any) -> str:
    """`TEXT` for a `str`, nothing for a switch. Choices stay as they are."""
    label = _shown(parameter, ctx).strip("<>")
    label = label.removeprefix("list[").removesuffix("]") if label.startswith("list[") else label
    return NAMES.get(label, label)


for _kind in (core.TyperOption, core.TyperArgument):  # Typer has no setting for it
    _kind.display_type = value_name  # type: ignore[method-assign,assignment]


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """`command` as Typer takes it: each parameter that is a dataclass becomes its fields, each an option.

    `PANEL` of a dataclass is the panel of --help that shows its options.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not groups:
        return command

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


Made = TypeVar("Made")


def of_options(kind: type[Made], **given: Any) -> Made:
    """A model of pydantic from options that are called like its fields, but for --price. Ends the command if it refuses
    one.
    """
    from pydantic import ValidationError

    try:
        return kind(**given)
    except ValidationError as error:
        named = (("-".join(map(str, each["loc"])).removesuffix("_per_node_hour"), each) for each in error.errors())
        told = [f"--{name.replace('_', '-')}: {in_words(each)}, not {quoted(each['input'])}" for name, each in named]
        raise stop_with("\n".join(told)) from None


def duration(text: str) -> int:
    """Seconds of `90s`, `10m` or `2h`."""
    found = re.fullmatch(r"(\d{1,5})([smh])", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no time: write 90s, 10m or 2h")
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def experiments(incomplete: str) -> list[str]:
    """Presets, and YAML files in the folder that the user has typed."""
    folder = Path(incomplete).parent if "/" in incomplete else Path()
    files = sorted(str(path) for path in folder.glob("*.yaml")) if folder.is_dir() else []
    return [name for name in (*preset_names(), *files) if name.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Folders below results/ that hold a report. After a comma or `..` it completes the last part."""
    cut = max(incomplete.rfind(",") + 1, incomplete.rfind("..") + 2 if ".." in incomplete else 0)
    done, begun = incomplete[:cut], incomplete[cut:]
    found = sorted(str(path.parent) for path in RESULTS.glob("*/report.json"))
    return [done + name for name in found if name.startswith(begun)]


def experiments_or_runs(incomplete: str) -> list[str]:
    return [*experiments(incomplete), *runs(incomplete)]


def cases(incomplete: str) -> list[str]:
    """Test cases and their groups."""
    return [name for name in (*case_names(), *CASE_GROUPS) if name.startswith(incomplete)]


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a field: workload.requests=20.")
]
Price = Annotated[
    float | None,
    typer.Option(min=0, max=MOST_DOLLARS, help="US dollars for an hour of the node. Default: AWS's published price."),
]
Profile = Annotated[str | None, typer.Option(help="Profile of the AWS configuration; without it AWS_PROFILE.")]
Reference = Annotated[
    str, typer.Argument(metavar="PRESET|FILE", help="A preset's name or a YAML file.", autocompletion=experiments)
]
Region = Annotated[
    str | None,
    typer.Option(
        help="AWS region; without it the deployment's (deployment.json), AWS_REGION, AWS_DEFAULT_REGION, the profile's."
    ),
]
Run = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", help="A run id, its folder or a report.json. Default: the newest.", autocompletion=runs
    ),
]
Runs = Annotated[Path, typer.Option(help="Your runs' folder: their steps are evidence too.")]
Written = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Write the page, Markdown, CSV and JSON into this folder; no name of a file."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking, for scripts.")]


@dataclass(frozen=True, kw_only=True)
class Where:
    """The deployment that a command asks."""

    stack: Annotated[str, typer.Option(help="Name of the deployed stack.")] = STACK
    region: Region = None
    profile: Profile = None

    def deployment(self) -> Deployment:
        from specdecode.cli.runs_deployment import Deployment

        return Deployment(stack=self.stack, region=self.region, profile=self.profile)


WHERE = Where()
