"""Bodies and options of requests: read them, check their place, and drop unknown fields if the client allows it."""

import json
from collections.abc import Mapping
from typing import Any, cast

import yaml

from rehearsal.kubernetes import errors, schema, schema_values
from rehearsal.kubernetes.objects import Json
from rehearsal.kubernetes.requests import Target

Warnings = list[str]
"""Warnings to the client about dropped fields."""


def decode(raw: bytes) -> Any:
    """Read a request body: JSON, or YAML (an apply may be YAML)."""
    try:
        return json.loads(raw)
    except ValueError:
        pass
    try:
        return yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise errors.bad_request(f"the object provided is unrecognized: {problem}") from None


def delete_options(raw: bytes) -> Json:
    """The options in the body of a deletion. Raises 400 if they are malformed."""
    options = (decode(raw) if raw else None) or {}
    fits = isinstance(options, dict) and isinstance(options.get("preconditions") or {}, dict)
    if not fits or not isinstance(options.get("gracePeriodSeconds") or 0, int):
        raise errors.bad_request("couldn't get version/kind; json parse error: DeleteOptions expected")
    return options


def as_asked(target: Target, obj: Json, query: Mapping[str, str], warnings: Warnings) -> Json:
    """`obj` as the API server reads it by `fieldValidation`; Warn is its default."""
    asked = query.get("fieldValidation") or "Warn"
    if asked not in ("Ignore", "Warn", "Strict"):
        message = f'fieldValidation: Unsupported value: "{asked}": supported values: "Ignore", "Strict", "Warn"'
        raise errors.ApiError(422, "Invalid", message)
    if asked == "Strict":
        return obj
    known, dropped = schema_values.known_part(schema.schema_of(target.resource), obj)
    if asked == "Warn":
        warnings += dropped
    return cast(Json, known)


def is_dry_run(query: Mapping[str, str]) -> bool:
    asked = query.get("dryRun", "")
    if asked not in ("", "All"):
        raise errors.bad_request(f'invalid dryRun value "{asked}": supported values: "All"')
    return asked == "All"


def located(target: Target, body: Any, *, replaces: bool = False) -> Json:
    """`body` with the namespace and name of the path. Raises 400 if they differ, or if the kind is another.

    A body that `replaces` an object says its name (`checkName` in apiserver/pkg/endpoints/handlers/rest.go).
    """
    if not isinstance(body, dict):
        raise errors.bad_request("the object provided is unrecognized: a map is expected")
    resource = target.resource
    kind, version = body.get("kind", resource.kind), body.get("apiVersion", resource.api_version)
    if (kind, version) != (resource.kind, resource.api_version):
        message = (
            f'{kind} in version "{version}" does not match the expected {resource.kind} in "{resource.api_version}"'
        )
        raise errors.bad_request(message)
    metadata = {} if body.get("metadata") is None else body["metadata"]
    if not isinstance(metadata, dict):
        raise errors.bad_request("json: cannot unmarshal metadata into Go struct field of type v1.ObjectMeta")
    if replaces and not metadata.get("name"):
        why = "was undeterminable: name must be provided"
        raise errors.bad_request(f"the name of the object ({target.name} based on URL) {why}")
    metadata = dict(metadata)
    for field in ("name", "generateName", "namespace", "resourceVersion", "uid"):
        if not isinstance(metadata.get(field, ""), str | None):
            raise errors.bad_request(
                f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{field} of type string"
            )
    if target.name and metadata.setdefault("name", target.name) != target.name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        )
    if resource.namespaced and metadata.setdefault("namespace", target.namespace) != target.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not resource.namespaced:
        metadata.pop("namespace", None)
    return {**body, "apiVersion": version, "kind": kind, "metadata": metadata}
