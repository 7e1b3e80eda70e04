"""Experiments whose arms are servers that already run: how a document says so, and what it may leave out then.

Why it is so: ADR 106.
"""

from collections.abc import Callable, Collection
from typing import Any

Document = dict[str, Any]
TOOLS_ENGINE = "0.9.1-sdk2.26.1"
"""Engine whose `tools_image` the benchmark's pods use."""
IMPORTED = "measured_with"
"""Field of an experiment whose arms another tool measured."""
UNWEIGHED_GIB = 1.0
OF_AN_ENDPOINT = ("served_model_name", "api_key_secret", "price_per_hour")
OF_A_SERVED_ARM = ("neuron_config", "extra_args", "env")


def has_endpoints(document: Document) -> bool:
    """Whether any variant of the plain `document` names an endpoint."""
    return any(variant.get("endpoint") is not None for variant in variants_of(document))


def of_one_kind(document: Document) -> Document:
    """`document` without the fields of the other kind. A document with endpoints loses the fields about serving."""
    variants = document.get("variants")
    if not isinstance(variants, (list, tuple)):
        return document
    if IMPORTED in document:
        return _each_model(document, _weighed)
    if not has_endpoints(document):
        return {**document, "variants": [_without(one, ("endpoint", *OF_AN_ENDPOINT)) for one in variants]}
    plain = _without(_each_model(document, _weighed), ("engine", "serving", "start_check", "hold"))
    return {**plain, "variants": [_without(one, OF_A_SERVED_ARM) for one in plain["variants"]]}


def written(document: Document) -> Document:
    """The document as a person writes it. Without sizes of weights if no weights are loaded."""
    if not has_endpoints(document) and IMPORTED not in document:
        return document
    return _each_model(document, lambda model: _without(model, ("size_gib",)))


def _weighed(model: Document) -> Document:
    return {"size_gib": UNWEIGHED_GIB, **model}


def _each_model(document: Document, change: Callable[[Document], Document]) -> Document:
    """`document` with `change` made to the experiment's target and each variant's target and draft."""

    def changed(holder: Any, key: str) -> Any:
        if not isinstance(holder, dict) or not isinstance(holder.get(key), dict):
            return holder
        return {**holder, key: change(holder[key])}

    def variant(one: Any) -> Any:
        one = changed(one, "target")
        if isinstance(one, dict) and "speculation" in one:
            one = {**one, "speculation": changed(one["speculation"], "draft")}
        return one

    each = {"variants": [*map(variant, document["variants"])]} if "variants" in document else {}
    return {**changed(document, "target"), **each}


def _without(holder: Any, keys: Collection[str]) -> Any:
    return {key: value for key, value in holder.items() if key not in keys} if isinstance(holder, dict) else holder


def variants_of(document: Document) -> list[Document]:
    """The variants of a plain `document` that are mappings."""
    variants = document.get("variants")
    return [one for one in variants if isinstance(one, dict)] if isinstance(variants, (list, tuple)) else []
