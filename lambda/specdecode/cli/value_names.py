"""Names of option values in `--help`: TEXT, NUMBER, FILE. Typer 0.29 shows Python's types (`<list[str]>`)."""

from __future__ import annotations

from typing import Any

from typer import core

NAMES = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "int range": "NUMBER", "float range": "NUMBER"}
NAMES |= {"path": "PATH", "file": "FILE", "directory": "FOLDER", "bool": "", "datetime": "TIME"}
_shown = core.TyperOption.display_type


def value_name(parameter: Any, ctx: Any) -> str:
    """`TEXT` for a `str`, nothing for a switch. Choices stay as they are."""
    label = _shown(parameter, ctx).strip("<>")
    label = label.removeprefix("list[").removesuffix("]") if label.startswith("list[") else label
    return NAMES.get(label, label)


def use() -> None:
    """Use these names in every command's help. Typer has no setting for it, so its method is replaced."""
    for kind in (core.TyperOption, core.TyperArgument):
        kind.display_type = value_name  # type: ignore[method-assign,assignment]
