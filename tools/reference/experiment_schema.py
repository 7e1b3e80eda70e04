"""The fields of an experiment, in docs/reference/fields.md."""

import inspect
import re
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from specdecode.experiment import base, model, variants, workload
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.schema import experiment_schema
from specdecode.experiment.told import Forecasted, Published
from specdecode.prompts import HubFile, PromptsOf, SetOf

from tools.reference import between, table

PARTS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The experiment", model.ServedExperiment),
    ("`target`, `draft`: weights", variants.ModelRef),
    ("`serving`", variants.Serving),
    ("`variants`", variants.ServedVariant),
    ("`variants` that are servers already", variants.EndpointVariant),
    ("`speculation`", variants.Speculation),
    ("`workload`", workload.Workload),
    ("`workload.cases`", workload.TestCase),
    ("`workload.prompts`: sets of prompts", SetOf),
    ("`prompts` of a case", PromptsOf),
    ("`hub`: a file of the Hugging Face hub", HubFile),
    ("`workload.requests`: until it is settled", workload.Requests),
    ("`workload.slo`", workload.Slo),
    ("`compile`", model.Compile),
    ("`deadlines`", base.Deadlines),
    ("`published`", Published),
    ("`forecast`", Forecasted),
)
ENUMS: tuple[type[StrEnum], ...] = (
    variants.Method,
    MostTokens,
    variants.ModelKind,
    workload.PromptKind,
    workload.Load,
    model.CompileOn,
)
LINKS = {
    described.__name__: f"[{described.__name__}](#{re.sub(r'[^a-z -]', '', title.lower()).replace(' ', '-')})"
    for title, described in PARTS
} | {enum.__name__: f"[{enum.__name__}](#words)" for enum in ENUMS}
NOT_WRITTEN = ("sweep", "extends")
"""Shorthands of the written document. The model of a run does not have them."""


def render() -> str:
    schema = experiment_schema()
    return "\n\n".join(
        (
            *(part for title, described in PARTS for part in _part(title, described, schema)),
            "## Words",
            *(f"**{enum.__name__}**: {_doc(enum)} One of {_words(enum)}." for enum in ENUMS),
        )
    )


def replaced(text: str) -> str:
    """`text` of docs/reference/fields.md with the current tables."""
    return between(text, "fields", render())


def _part(title: str, described: type[BaseModel], schema: dict[str, Any]) -> list[str]:
    fields = described.__annotations__ if described is variants.EndpointVariant else described.model_fields
    own = schema if described is model.ServedExperiment else schema["$defs"][_written(described).__name__]
    rows = [
        (f"`{name}`", _type(field, schema), _default(described, name), field.get("description", ""))
        for name, field in own["properties"].items()
        if name not in NOT_WRITTEN and name in fields
    ]
    return [f"## {title}", _doc(described), table(("field", "type", "default", "meaning"), rows)]


def _written(described: type[BaseModel]) -> type[BaseModel]:
    """The part of the schema with the fields of `described`. Arms of both kinds are one there."""
    return variants.ServedVariant if described is variants.EndpointVariant else described


def _type(field: dict[str, Any], schema: dict[str, Any]) -> str:
    """What may be written: `integer, 1 to 32`, `list of weights`, `text`."""
    if "anyOf" in field:
        kinds = [_type(each, schema) for each in field["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "$ref" in field:
        return LINKS[field["$ref"].rpartition("/")[2]]
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"]) if len(field["enum"]) < 5 else "a known name"
    if field.get("type") == "array":
        if parts := field.get("prefixItems"):
            return f"[{', '.join(_type(part, schema) for part in parts)}]"
        return f"list of {_type(field['items'], schema)}"
    words = {
        "string": "text",
        "integer": "integer",
        "number": "number",
        "boolean": "true or false",
        "object": "mapping",
    }
    return words[field["type"]] + _limits(field)


def _limits(field: dict[str, Any]) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    above = field.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f", {low:g} to {int(high):,}"
    if above is not None:
        return f", above {above:g}" + (f", at most {high:,g}" if high is not None else "")
    return f", at least {low:g}" if low is not None else ""


def _default(described: type[BaseModel], name: str) -> str:
    field = described.model_fields[name]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ("", (), {}) or isinstance(value, BaseModel):
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _doc(described: type) -> str:
    return " ".join(inspect.cleandoc(described.__doc__ or "").split())


def _words(enum: type[StrEnum]) -> str:
    return ", ".join(f"`{member.value}`" for member in enum)
