"""From the document that a person writes to the plain one that is validated: inheritance, overrides, cases, sweeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specdecode.experiment.documents import refused
from specdecode.experiment.errors import ExperimentError, Problem
from specdecode.experiment.overriding import Document, fix_of, merge, override
from specdecode.experiment.unfolding import expand_variants


def inherit(document: Document, *, preset: Callable[[str], Document], seen: tuple[str, ...] = ()) -> Document:
    """`document` over the preset that it `extends`, if it does."""
    if "extends" not in document:
        return document
    parent = document["extends"]
    if not isinstance(parent, str):
        raise refused("extends", "must be the name of a preset", "write `extends: qwen3-32b`")
    if parent in seen:
        raise refused("extends", f"{' -> '.join((*seen, parent))} goes round in a circle", "remove one `extends`")
    own = {key: value for key, value in document.items() if key != "extends"}
    before = inherit(preset(parent), preset=preset, seen=(*seen, parent))
    if _names(own, "cases") and not _names(own, "prompts"):
        before = without_sets(before)
    return dict(merge(before, own))


def without_sets(document: Document) -> Document:
    """Without `workload.prompts`: a user who names cases of a preset wants only these, and pays for no others."""
    workload = document.get("workload")
    if not isinstance(workload, dict):
        return document
    return {**document, "workload": {key: value for key, value in workload.items() if key != "prompts"}}


def _names(document: Document, key: str) -> bool:
    workload = document.get("workload")
    return isinstance(workload, dict) and key in workload


def expand(
    document: Document,
    *,
    overrides: Mapping[str, Any],
    library: Mapping[str, Any],
    sets: Callable[[Document], Document] = lambda document: document,
) -> Document:
    """Sweeps, variants, cases and (by `sets`) sets of prompts written out, with `overrides` applied.

    A path is looked up in the document as it is written, and else in the document written out: so both a sweep's
    lists and a swept variant can be overridden.
    """
    if "workload.cases" in overrides and not any(path.startswith("workload.prompts") for path in overrides):
        document = without_sets(document)
    document, failed = override(document, overrides)
    document = sets(expand_cases(expand_variants(document), library=library))
    document, failed = override(document, {path: overrides[path] for path in failed})
    if failed:
        raise ExperimentError(
            [Problem(field=p, rule="override", message=why, fix=fix_of(p, overrides[p])) for p, why in failed.items()]
        )
    return compare_with_the_baseline(expand_cases(expand_variants(document), library=library))


def compare_with_the_baseline(document: Document) -> Document:
    """Arms that speculate and name no `compare_to` get the baseline's name, if there is exactly one."""
    variants = document.get("variants")
    if not isinstance(variants, list) or not all(isinstance(variant, dict) for variant in variants):
        return document
    alone = [variant for variant in variants if variant.get("compare_to") is None]
    plain = [variant for variant in alone if variant.get("speculation") is None]
    if len(plain) != 1 or "name" not in plain[0]:
        return document
    filled = [
        {**variant, "compare_to": plain[0]["name"]} if variant in alone and variant is not plain[0] else variant
        for variant in variants
    ]
    return {**document, "variants": filled}


def expand_cases(document: Document, *, library: Mapping[str, Any]) -> Document:
    """Names in `workload.cases` replaced by the cases of the library. Unknown names stay (`unknown_cases`)."""
    workload = document.get("workload")
    if not isinstance(workload, dict) or not isinstance(workload.get("cases"), list):
        return document
    known = {name: {"name": name, **case} for name, case in library.items()}
    cases = [known.get(case, case) if isinstance(case, str) else case for case in workload["cases"]]
    return {**document, "workload": {**workload, "cases": cases}}


def unknown_cases(document: Document, *, library: Mapping[str, Any]) -> list[Problem]:
    """Names in `workload.cases` of a document written out: those that the library does not have."""
    workload = document.get("workload")
    cases = workload.get("cases") if isinstance(workload, dict) else None
    return [
        Problem(
            field=f"workload.cases.{at}",
            rule="case-known",
            message=f"no test case is called {case!r}",
            fix=f"name one of {', '.join(library)}, or write the case out (name, label, kind, text, structured)",
        )
        for at, case in enumerate(cases if isinstance(cases, list) else ())
        if isinstance(case, str)
    ]
