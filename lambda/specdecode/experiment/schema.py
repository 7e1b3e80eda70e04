"""The JSON Schema of the document that a person writes: an experiment, or a change to a preset."""

import ast
import inspect
import textwrap
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from specdecode.assets import engine_names, preset_names
from specdecode.experiment import model, variants, workload
from specdecode.experiment.files import case_library, in_order
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.prompt_sets import set_names
from specdecode.experiment.variants import TUNED, EndpointVariant
from specdecode.prompts import SetOf, reference


def experiment_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) with the presets, engines and test cases of this installation as choices."""
    schema = ServedExperiment.model_json_schema()  # has all keys of the other kind, but those of its variants
    schema["properties"] = {key: schema["properties"][key] for key in in_order(schema["properties"])}
    parts = schema["$defs"]
    _describe(schema, ServedExperiment)
    known = vars(reference) | vars(workload) | vars(variants) | vars(model)
    for name, part in parts.items():
        found = known[name]
        if issubclass(found, BaseModel):
            _describe(part, found)
    _add_choices(schema)
    _add_sets(parts)
    _add_variants(parts["ServedVariant"]["properties"])
    _add_lists(parts["Serving"]["properties"], TUNED, "A list measures every arm at each, with its own baseline.")
    _add_lists(parts["Workload"]["properties"], ["output_tokens"], "A list measures every case at each length.")
    _require_less(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "anyOf": [
            {"required": ["extends"]},
            {"required": ["name", "title", "engine", "target", "variants"]},
            {
                "required": ["name", "title", "target", "variants"],
                "properties": {"variants": {"items": {"required": ["endpoint"]}}},
            },
        ],
    }


def _add_choices(schema: dict[str, Any]) -> None:
    """The names of engines, presets and cases that ship."""
    schema["properties"]["engine"]["enum"] = engine_names()
    schema["properties"]["extends"] = {
        "type": "string",
        "enum": preset_names(),
        "description": "Start from this preset; what the document says replaces it, mappings key by key.",
    }
    schema["properties"]["with_answers"] = {
        "type": "object",
        "description": "What replaces the rest where somebody sets `answers`: a smaller node, for no target is served.",
    }
    cases = schema["$defs"]["Workload"]["properties"]["cases"]
    cases["items"] = {"anyOf": [{"type": "string", "enum": list(case_library())}, cases["items"]]}


def _add_sets(parts: dict[str, Any]) -> None:
    """`workload.prompts`, which the plain document has as cases."""
    parts["Workload"]["properties"]["prompts"] = {
        "type": "array",
        "items": {"anyOf": [{"type": "string", "enum": set_names()}, {"$ref": "#/$defs/SetOf"}]},
        "description": "Sets of prompts: one case for each category.",
    }
    parts["SetOf"] = SetOf.model_json_schema(ref_template="#/$defs/{model}")
    parts["SetOf"].pop("$defs", None)
    _describe(parts["SetOf"], SetOf)


def _add_variants(fields: dict[str, Any]) -> None:
    """The keys of a variant that is a server already, and those that are written out before it is read."""
    elsewhere = EndpointVariant.model_json_schema()
    _describe(elsewhere, EndpointVariant)
    fields |= elsewhere["properties"]
    fields["sweep"] = {
        "type": "object",
        "additionalProperties": {"type": "array", "minItems": 1},
        "description": "Fields of `speculation` and lists of their values: one variant for each combination. "
        "{draft} and {k} are filled in name and label.",
    }
    fields["name"] = {
        "type": "string",
        "description": "Lower-case letters, digits, dots and hyphens; {draft} and {k} in a sweep.",
    }
    fields["extends"] = {"type": "string", "description": "Start from this earlier variant of the same document."}


def _add_lists(fields: dict[str, Any], swept: Iterable[str], said: str) -> None:
    """The fields that may be lists, which are written out before the document is read."""
    for name in swept:
        given = fields[name]
        one = {key: given.pop(key) for key in ("type", "minimum", "maximum")}
        given["anyOf"] = [one, {"type": "array", "items": one, "minItems": 1}]
        given["description"] = f"{given['description']} {said}"


def _require_less(schema: dict[str, Any]) -> None:
    """A sweep, or the preset that is extended, may give what a part would need otherwise."""
    parts = schema["$defs"]
    for part in (schema, parts["Speculation"], parts["Serving"], parts["Workload"]):
        part["required"] = []
    parts["ModelRef"]["required"] = ["id"]  # servers that already run need no sizes


def _describe(schema: dict[str, Any], described: type[BaseModel]) -> None:
    """Give the fields of `schema` the docstrings of the model that it is of."""
    for field, text in descriptions(described).items():
        schema["properties"][field]["description"] = text


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Field -> its docstring on one line. Fields of base classes count too; fields without a docstring are left out."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _own(base)
    return found


def _own(model: type[BaseModel]) -> dict[str, str]:
    (source,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(source, ast.ClassDef)  # noqa: S101 - narrows the type
    found = {}
    for field, below in zip(source.body, source.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found
