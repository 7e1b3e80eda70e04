"""What an experiment may set on its servers: variables, arguments, keys of the configuration.

An engine's file lists what is settable, by whole names (`settable_env`, `settable_args`, `settable_config`); all else
is refused. An experiment is data: it may tune how the engine computes. What code runs, which files are read and
written, and whom the server talks to is the engine's file's and ours; assets/foreign.yaml has what no engine's file can
open either, with reasons and sources.

Why it is so: ADR 128.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Any, Literal

import yaml
from pydantic import StringConstraints

from specdecode.assets import assets_dir

Variable = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=128)]
"""The whole name of a variable: a beginning would open what the next version of an engine reads."""
ConfigKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""A key of a Neuron configuration, at whatever depth."""
Flag = Annotated[str, StringConstraints(pattern=r"^--[a-z0-9][a-z0-9-]*$", max_length=64)]
Takes = Literal["alone", "number"] | tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.]+$")], ...]
"""What follows an argument: nothing, a number, or one of these words."""

_VALUE = re.compile(r"[A-Za-z0-9_.,+|=% -]*")
"""Characters of figures, switches and names of types and modules. Paths, URLs and commands have others."""
_ADDRESS = re.compile(r"\.\.|(?<![0-9.])[0-9]{1,3}(\.[0-9]{1,3}){3}(?![0-9.])")
"""Texts of these characters that name a place all the same: a parent folder, an IPv4 address."""
_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,6})?")


@dataclass(frozen=True)
class Foreign:
    """assets/foreign.yaml: names -> why they are closed to experiments and engines' files."""

    variables: dict[str, str]
    """Patterns of names in capitals."""
    arguments: dict[str, str]
    """Without their dashes."""
    keys: frozenset[str]
    key_parts: frozenset[str]


@cache
def foreign() -> Foreign:
    """Names that nobody may set."""
    data = yaml.load((assets_dir() / "foreign.yaml").read_text("utf-8"), yaml.CSafeLoader)

    def reasons(part: str) -> dict[str, str]:
        return {name: entry["why"] for entry in data[part] for name in entry["names"]}

    sets = {name: frozenset(data[name]) for name in ("keys", "key_parts")}
    return Foreign(variables=reasons("variables"), arguments=reasons("arguments"), **sets)


def why_foreign(variable: str) -> str | None:
    """Why nobody may set the environment variable of that name; None if an engine's file may list it."""
    return next((why for name, why in foreign().variables.items() if fnmatchcase(variable.upper(), name)), None)


def why_foreign_argument(flag: str) -> str | None:
    """Why nobody may add that argument of `vllm serve`; None if an engine's file may list it."""
    return foreign().arguments.get(_bare(flag))


def variable_problem(name: str, value: str, settable: Sequence[str]) -> str | None:
    """Why an experiment may not set variable `name`; None if it may. Names are compared as the kernel does."""
    if why := why_foreign(name):
        return f"{name} {why}"
    if name not in settable:
        return f"{name} is not among the variables that the engine's file lets an experiment set"
    if _is_place(value):
        return f"{name} is given a path, an address or a command"
    return None


def _is_place(value: str) -> bool:
    return not _VALUE.fullmatch(value) or _ADDRESS.search(value) is not None


def why_foreign_key(key: str) -> str | None:
    """Why nobody may set that key of a Neuron configuration; None if an engine's file may list it."""
    parts = set(key.lower().replace("-", "_").split("_"))
    named = key.lower() in foreign().keys or parts & foreign().key_parts
    return "names code, a file or a place" if named else None


def argument_problems(arguments: Sequence[str], settable: Mapping[str, Takes]) -> Iterator[str]:
    """All that is wrong with further arguments of the server: they are read as its parser may read them. An
    abbreviation is refused because it is no listed argument (argparse takes `--midd` for `--middleware`), a value that
    begins with a dash because it is an argument, and one that follows none because it names another model.
    """
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        takes = settable.get(flag)
        if takes is None:
            yield _unknown(word, flag)
            while rest and not rest[0].startswith("-"):  # its values: one problem is enough
                rest.pop(0)
        elif takes == "alone":
            if equals:
                yield f"{flag} takes no value"
        else:
            if not equals and (not rest or rest[0].startswith("--")):
                yield f"{flag} lacks its value"
                continue
            value = value if equals else rest.pop(0)
            if takes == "number" and not _NUMBER.fullmatch(value):
                yield f"{flag} takes a number, not {value!r}"
            elif takes != "number" and value not in takes:
                yield f"{flag} takes {' or '.join(takes)}, not {value!r}"


def config_problems(config: Mapping[str, Any], settable: Sequence[str], *, at: str = "") -> Iterator[tuple[str, str]]:
    """Path and problem of each key of a Neuron configuration that is not listed, and of each value that is a place."""
    for key, value in config.items():
        here = f"{at}.{key}" if at else key
        if why := why_foreign_key(key):
            yield here, f"{key!r} {why}"
        elif key not in settable:
            yield here, f"{key!r} is not among the keys that the engine's file lets an experiment set"
        else:
            yield from _value_problems(value, settable, here)


def _value_problems(value: Any, settable: Sequence[str], at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from config_problems(value, settable, at=at)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _value_problems(item, settable, f"{at}.{index}")
    elif isinstance(value, str) and _is_place(value):
        yield at, f"{value!r} is a path, an address or a command"


def _unknown(word: str, flag: str) -> str:
    if not word.startswith("-"):
        return f"{word!r} belongs to no argument: the server would take it for a model"
    if why := why_foreign_argument(flag):
        return f"{flag} {why}"
    name = _bare(flag)
    longer = next((one for one in foreign().arguments if name and one.startswith(name)), None)
    short = f" (the server could take it for --{longer})" if longer else ""
    return f"{flag} is not among the arguments that the engine's file lets an experiment set{short}"


def _bare(flag: str) -> str:
    """An argument's name as vLLM's parser compares it: `--hf_overrides.x` is part of `--hf-overrides`."""
    return flag.lstrip("-").replace("_", "-").split(".")[0]
