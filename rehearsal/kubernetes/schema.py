"""Structural schemas: Kubernetes 1.35's own (the data of `kubernetes-validate`) and Karpenter's CRDs (`schemas/`).

`schema_check` checks an object against its schema; `schema_values` reads an object by it.
"""

import functools
import importlib.resources
import json
from typing import cast

import yaml

from rehearsal.kubernetes.objects import Json, dig
from rehearsal.kubernetes.resources import Resource

KUBERNETES_VERSION = "1.35.0"
_MAY_BE_ABSENT = "may be absent"
"""In values.yaml: fields that the OpenAPI document requires and the API server does not."""


@functools.cache
def definitions() -> Json:
    folder = importlib.resources.files("kubernetes_validate") / "kubernetes-json-schema"
    path = folder / f"v{KUBERNETES_VERSION}-local-strict" / "_definitions.json"
    found = cast(Json, json.loads(path.read_text())["$defs"])
    values = importlib.resources.files("rehearsal.kubernetes") / "schemas" / "values.yaml"
    for name, rules in yaml.safe_load(values.read_text()).items():
        definition = found[f"io.k8s.{name}"]
        absent = rules.pop(_MAY_BE_ABSENT, ())
        definition["required"] = [field for field in definition.get("required", ()) if field not in absent]
        _lay_over(definition.get("properties", definition), rules)
    return found


def _lay_over(node: Json, rules: Json) -> None:
    """Put `rules` into `node`, in place. Raises KeyError if `node` has no such field.

    In a field of a built-in kind "" means the same as an absent field, so every enum allows it.
    """
    for key, rule in rules.items():
        if isinstance(rule, dict):
            _lay_over(node.setdefault(key, {}) if key == "propertyNames" else node[key], rule)
        else:
            node[key] = ["", *rule] if key == "enum" else rule


@functools.cache
def custom_definitions() -> Json:
    path = importlib.resources.files("rehearsal.kubernetes") / "schemas" / "karpenter.yaml"
    return cast(Json, yaml.safe_load(path.read_text()))


def schema_of(resource: Resource) -> Json:
    """The schema of a resource's objects."""
    if resource.definition:
        return cast(Json, definitions()[resource.definition])
    meta = {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    own = custom_definitions()[resource.kind]
    head = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": meta}
    return {"type": "object", "additionalProperties": False, "properties": {**head, **own}, "required": ["spec"]}


def resolve(node: Json) -> Json:
    """`node` with its `$ref` followed."""
    ref = node.get("$ref")
    return cast(Json, definitions()[ref.rsplit("/", 1)[1]]) if ref else node


def child(node: Json, key: str) -> Json:
    """The schema of a map's field `key`; {} if anything is allowed."""
    node = resolve(node)
    found = dig(node, "properties", key)
    if found is None:
        found = node.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def items(node: Json) -> Json:
    return cast(Json, resolve(node).get("items") or {})
