"""Experiments on servers that already run: every variant names an endpoint, and nothing is compiled or served here.

What such a document need not say (engine, serving, sizes of weights) is filled in with values that nothing reads, so
that everything downstream has one kind of experiment. `written` takes them out again before a person sees them.

Why it is so: ADR 106.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Document = dict[str, Any]
TOOLS_ENGINE = "0.9.1-sdk2.26.1"
"""Engine whose `tools_image` the benchmark's pods use where the document names none."""
UNSERVED: Document = {"tensor_parallel_size": 1, "devices": 0, "max_num_seqs": 1, "max_model_len": 2**20}
UNWEIGHED_GIB = 1.0


def has_endpoints(document: Document) -> bool:
    """Whether any variant of the plain `document` names an endpoint."""
    variants = document.get("variants")
    return isinstance(variants, list) and any(isinstance(v, dict) and v.get("endpoint") is not None for v in variants)


def fill(document: Document) -> Document:
    """`document` with all that is not asked of servers that already run; others as they are."""
    if not has_endpoints(document):
        return document
    return {"engine": TOOLS_ENGINE, **_each_model(document, _weighed), "serving": UNSERVED}


def written(document: Document) -> Document:
    """What `fill` added taken out again: the document as a person writes it."""
    if not has_endpoints(document):
        return document
    plain = _each_model(document, lambda model: {key: value for key, value in model.items() if key != "size_gib"})
    return {key: value for key, value in plain.items() if key not in ("engine", "serving")}


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

    return {**changed(document, "target"), "variants": [variant(one) for one in document["variants"]]}
