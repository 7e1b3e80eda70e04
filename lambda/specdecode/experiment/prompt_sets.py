"""Sets of prompts in experiments: those that ship, and `workload.prompts` written out as cases."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import ValidationError

from specdecode.experiment.assets import assets_dir
from specdecode.experiment.errors import ExperimentError, Problem
from specdecode.experiment.model import TestCase
from specdecode.prompts import PromptSet, SetOf, read_set

Document = dict[str, Any]
CHARACTERS_PER_TOKEN = 4.0
"""Of English text with a vocabulary of 32,000 to 150,000 tokens."""


def set_names() -> list[str]:
    """Names of the sets that ship."""
    return sorted(path.stem for path in (assets_dir() / "prompts" / "sets").glob("*.jsonl"))


@cache
def shipped(name: str) -> PromptSet | None:
    """The set of that name that ships; None where there is none. Raises BadPromptSet: the installation is damaged."""
    if name not in set_names():
        return None
    return read_set((assets_dir() / "prompts" / "sets" / f"{name}.jsonl").read_bytes(), name=name)


def mean_input_tokens(case: TestCase) -> float | None:
    """Estimated length of a case's prompts, by their characters; None where they cannot be seen here."""
    found = shipped(case.prompts.set) if case.prompts else None
    if case.prompts is None or found is None:
        return None
    rows = found.of(case.prompts.category, case.prompts.length)[: case.requests]
    return sum(len(row.text) for row in rows) / CHARACTERS_PER_TOKEN / max(len(rows), 1)


def expand_sets(document: Document) -> Document:
    """`workload.prompts` taken out, and one case for each category of its sets added. Raises ExperimentError."""
    workload = document.get("workload")
    if not isinstance(workload, dict) or "prompts" not in workload:
        return document
    entries = workload["prompts"]
    if not isinstance(entries, list):
        raise _refused("workload.prompts", "is no list", "write `prompts: [NAME]` or `prompts: [{set: NAME}]`")
    cases = workload.get("cases", [])
    if not isinstance(cases, list):
        return document
    problems: list[Problem] = []
    added: list[Document] = []
    for at, entry in enumerate(entries):
        try:
            taken = {case.get("name") for case in (*cases, *added) if isinstance(case, dict)}
            added += _cases(entry, field=f"workload.prompts.{at}", taken=taken)
        except ExperimentError as error:
            problems += error.problems
    if problems:
        raise ExperimentError(problems)
    rest = {key: value for key, value in workload.items() if key != "prompts"}
    return {**document, "workload": {**rest, "cases": [*cases, *added]}}


def _cases(entry: Any, *, field: str, taken: Iterable[Any]) -> list[Document]:
    given = _entry(entry, field)
    name, _, digest = given.set.partition("@")
    found = shipped(name)
    if found is None and not digest:
        close = difflib.get_close_matches(name, set_names(), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        fix = f"choose of {', '.join(set_names())}, or write NAME@SHA256 as `specdecode prompts add FILE` prints it"
        raise _refused(f"{field}.set", f"no set that ships is called {name!r}{hint}", fix)
    if found is None and not given.categories:
        fix = "name them, as `specdecode prompts add` and `specdecode prompts check` print them"
        raise _refused(f"{field}.categories", "a set that does not ship needs its categories here", fix)
    categories = (
        given.categories or tuple(c for c in found.categories if found.of(c, given.length))
        if found
        else (given.categories)
    )
    cases = []
    for category in categories:
        case = category if category not in taken else f"{name}-{category}"[:40].rstrip("-.")
        prompts = {
            "set": name,
            "sha256": digest or (found.sha256 if found else ""),
            "version": found.version if found else "",
            "category": category,
            "length": given.length,
        }
        cases.append(
            {
                "name": case,
                "label": case,
                "kind": "set",
                "structured": found is not None and category in found.structured,
                "source": f"set {name}" + (f" {found.version}" if found and found.version else ""),
                "prompts": prompts,
                "requests": _requests(given, found, category),
            }
        )
    return cases


def _requests(given: SetOf, found: PromptSet | None, category: str) -> int | None:
    """Each prompt once at most, where they can be counted here."""
    if found is None:
        return given.per_category
    there = len(found.of(category, given.length))
    return min(given.per_category or there, there) or None


def _entry(entry: Any, field: str) -> SetOf:
    try:
        return SetOf.model_validate({"set": entry} if isinstance(entry, str) else entry)
    except ValidationError as error:
        raise ExperimentError(
            Problem(
                field=".".join([field, *map(str, item["loc"])]),
                rule="schema",
                message=item["msg"],
                fix="write `- set: NAME`, with categories, length and per_category as needed",
            )
            for item in error.errors(include_url=False)
        ) from None


def _refused(field: str, message: str, fix: str) -> ExperimentError:
    return ExperimentError([Problem(field=field, rule="prompt-set", message=message, fix=fix)])
