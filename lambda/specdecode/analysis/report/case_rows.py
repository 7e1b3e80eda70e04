"""Cases of a pair as the page lists them."""

from __future__ import annotations

from specdecode.analysis.results.comparison import CaseResult, GroupResult, Pair


def cases_by_kind(pair: Pair) -> list[tuple[str, GroupResult | None, list[CaseResult]]]:
    """Structured prompts first, then open-ended ones, each with the group's result."""
    kinds = (("structured", True), ("open-ended", False))
    found = [(name, pair.group(name), [c for c in pair.cases if c.structured is kind]) for name, kind in kinds]
    return [item for item in found if item[2]]


def remarks(pair: Pair) -> dict[str, list[str]]:
    """Each remark with the cases that it holds for."""
    found: dict[str, list[str]] = {}
    for case in pair.cases:
        for note in case.notes:
            found.setdefault(note, []).append(case.case)
    return found


def sample(case: CaseResult) -> str:
    """How much a case's interval rests on: `8 prompts`, `12 requests of one prompt`, `50 requests`."""
    if case.distinct_prompts == 1 and case.pairs > 1:
        return f"{case.pairs} requests of one prompt"
    unit = "prompt" if case.distinct_prompts else "request"
    return f"{case.pairs} {unit}{'s' if case.pairs != 1 else ''}"
