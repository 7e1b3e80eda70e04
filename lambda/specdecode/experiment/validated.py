"""A plain document as one of the models, or every problem of its shape, in words."""

import difflib
import json
from collections.abc import Iterator
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from specdecode.experiment import documents
from specdecode.experiment.problems import ExperimentError, Problem, refused
from specdecode.untrusted import in_words

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], plain: Any) -> Model:
    """`plain` as a `model`. Raises ExperimentError with every problem of its shape."""
    try:
        text = json.dumps(plain, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise refused("", f"holds a value that JSON cannot: {error}", "use finite numbers and text") from None
    if len(text) > documents.MAX_JSON_BYTES:
        message = f"is larger than {documents.MAX_JSON_BYTES // 1024} KiB when it is written out"
        raise refused("", message, "measure fewer arms or cases at a time, or shorten prompts")
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ExperimentError(_problems(error, model, plain)) from None


def _problems(error: ValidationError, model: type[BaseModel], plain: Any) -> Iterator[Problem]:
    for item in errors_of(error):
        location = item["loc"]
        if item["type"] == "extra_forbidden":
            known = sorted(_fields_at(model, location[:-1]))
            message = f"unknown key {location[-1]!r}{did_you_mean(str(location[-1]), known)}"
            fix = f"the keys here are {', '.join(known)}"
        elif item["type"] == "missing":
            message, fix = "is required and missing", "add it"
            if location[-1] == "size_gib":
                fix = "add it: GiB of the model's files; a model with another id inherits neither size nor revision"
        else:
            given = item.get("input")
            words = in_words(item)
            told = isinstance(given, (dict, list)) or (isinstance(given, str) and given in words)
            shown = "" if told else f", not {given!r}"[:80]
            message, fix = f"{words}{shown}", "correct the value (`specdecode schema` describes each field)"
        yield Problem(field=path_of(location, plain), rule="schema", message=message, fix=fix)


def errors_of(error: ValidationError) -> list[ErrorDetails]:
    """The errors, without those of a list that is too short for its wrong items alone."""
    found = error.errors(include_url=False, include_context=False)
    inner = [item["loc"] for item in found]
    return [item for item in found if not any(item["loc"] == at[: len(item["loc"])] != at for at in inner)]


def path_of(location: tuple[int | str, ...], plain: Any) -> str:
    """Dotted path, with the items of lists by name where they have one."""
    parts, node = [], plain
    for part in location:
        try:
            node = node[part]
        except (LookupError, TypeError):
            node = None
        named = isinstance(part, int) and isinstance(node, dict) and isinstance(node.get("name"), str)
        parts.append(node["name"] if named else str(part))
    return ".".join(parts)


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Names of the fields that the model has at `location`."""
    current: Any = model
    for part in location:
        if isinstance(part, int):
            continue
        field = current.model_fields.get(part) if isinstance(current, type) and issubclass(current, BaseModel) else None
        current = next(_models_in(field.annotation), None) if field else None
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (tuple, list, dict, Union, UnionType):
        for inner in get_args(annotation):
            yield from _models_in(inner)


def did_you_mean(given: str, known: list[str]) -> str:
    """` (did you mean '…'?)` with the known name that is most like `given`; empty if none is."""
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
