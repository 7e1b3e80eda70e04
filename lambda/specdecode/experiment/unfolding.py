"""The variants of a document written out: `extends`, ranges and sweeps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from specdecode.experiment.documents import refused
from specdecode.experiment.overriding import Document, merge

MAX_VARIANTS = 64
MAX_RANGE = 1000
MAX_SPELLED_OUT = 2**20
"""Most characters that all ranges of a document together may make."""
RANGE = re.compile(r"\{(\d{1,4})\.\.(\d{1,4})\}")


def expand_variants(document: Document) -> Document:
    """Each variant that `extends` an earlier one laid over it, sweeps unfolded, ranges spelled out."""
    variants = document.get("variants")
    if not isinstance(variants, list):
        return document
    if len(variants) > MAX_VARIANTS:
        raise refused("variants", f"more than {MAX_VARIANTS} variants", "split the experiment")
    out: list[Any] = []
    for at, variant in enumerate(variants):
        if isinstance(variant, dict) and "extends" in variant:
            parent = next((v for v in out if isinstance(v, dict) and v.get("name") == variant["extends"]), None)
            if parent is None:
                field = f"variants.{at}.extends"
                raise refused(
                    field, f"no earlier variant is called {variant['extends']!r}", "name one that is above it"
                )
            variant = merge(parent, {key: value for key, value in variant.items() if key != "extends"})
        out.append(variant)
    if sum(map(_spelled_out, out)) > MAX_SPELLED_OUT:
        raise refused("variants", "ranges ({0..9}) that make too many entries", "shorten them, or name fewer variants")
    return expand_sweeps({**document, "variants": [_ranges(variant) for variant in out]})


def _spelled_out(value: Any) -> int:
    """Characters that the ranges in `value` make."""
    if isinstance(value, dict):
        return sum(map(_spelled_out, value.values()))
    if not isinstance(value, list):
        return 0
    spans = [
        len(item) * len(_numbers(match)) for item in value if isinstance(item, str) and (match := RANGE.search(item))
    ]
    return sum(spans) + sum(_spelled_out(item) for item in value)


def _numbers(match: re.Match[str]) -> range:
    return range(int(match[1]), min(int(match[2]), int(match[1]) + MAX_RANGE) + 1)


def _ranges(value: Any) -> Any:
    """`layers.{0..2}.mlp` in a list of texts -> `layers.0.mlp`, `layers.1.mlp`, `layers.2.mlp`."""
    if isinstance(value, dict):
        return {key: _ranges(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    out: list[Any] = []
    for item in value:
        match = RANGE.search(item) if isinstance(item, str) else None
        if match is None:
            out.append(_ranges(item))
            continue
        out += [item[: match.start()] + str(number) + item[match.end() :] for number in _numbers(match)]
    return out


def expand_sweeps(document: Document) -> Document:
    """Each variant with a `sweep` replaced by the product of its lists, laid over the variant's `speculation`.

    `{draft}` (the draft's short name) and `{k}` (num_speculative_tokens) are filled in `name` and `label`.
    """
    variants = document.get("variants")
    if not isinstance(variants, list):
        return document
    plain: list[Any] = []
    for at, variant in enumerate(variants):
        if isinstance(variant, dict) and "sweep" in variant:
            plain += _swept(variant, field=f"variants.{at}.sweep")
        else:
            plain.append(variant)
        if len(plain) > MAX_VARIANTS:
            raise refused("variants", f"more than {MAX_VARIANTS} variants", "split the experiment")
    return {**document, "variants": plain}


def _swept(variant: Document, *, field: str) -> list[Document]:
    sweep = variant["sweep"]
    if not isinstance(sweep, dict) or not sweep or not all(isinstance(v, list) and v for v in sweep.values()):
        raise refused(field, "must map fields of `speculation` to lists", "write e.g. {num_speculative_tokens: [5, 7]}")
    if len(list(itertools.islice(itertools.product(*sweep.values()), MAX_VARIANTS + 1))) > MAX_VARIANTS:
        raise refused(field, f"more than {MAX_VARIANTS} variants", "shorten a list, or split the experiment")
    rest: Document = {key: value for key, value in variant.items() if key != "sweep"}
    out: list[Document] = []
    for values in itertools.product(*sweep.values()):
        point: Document = merge(rest.get("speculation"), dict(zip(map(str, sweep), values, strict=True)))
        fields = {"{draft}": _short(point.get("draft")), "{k}": str(point.get("num_speculative_tokens", ""))}
        names: Document = {key: _fill(rest[key], fields) for key in ("name", "label") if key in rest}
        out.append(rest | names | {"speculation": point})
    return out


def _fill(text: Any, fields: Mapping[str, str]) -> Any:
    if not isinstance(text, str):
        return text
    for mark, value in fields.items():
        text = text.replace(mark, value)
    return text


def _short(draft: Any) -> str:
    """`Qwen/Qwen3-0.6B` -> `qwen3-0.6b`."""
    identifier = draft.get("id") if isinstance(draft, dict) else None
    return re.sub(r"[^a-z0-9.-]", "-", str(identifier or "draft").rsplit("/", 1)[-1].lower())
