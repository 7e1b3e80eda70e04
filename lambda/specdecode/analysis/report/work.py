"""The matrix by kind of work as text, the same in every form of the report."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.analysis.report.numbers import NONE, compact, times
from specdecode.analysis.results.comparison import Verdict
from specdecode.analysis.results.work_result import Category, CategoryAtLevel, PromptGain, Work

COLUMNS = {
    "kind of work": "",
    "speed-up (95% CI)": "Output tokens per second of whole requests, arm / baseline; geometric mean and interval over "
    "prompts, rounds averaged",
    "verdict": "What the interval of the speed-up says",
    "acceptance length": "Tokens of a step that had drafts: 1 + accepted tokens / drafts",
    "accepted by position (%)": "Of the drafts whose earlier tokens were accepted: share with this one accepted too",
    "outputs equal": "Pairs of answers to the same prompt, equal character for character",
    "prompts": "Different prompts that both arms completed",
}
"""Heading and meaning."""
HEADERS = tuple(COLUMNS)
SAID = {
    Verdict.PAYS: "pays for",
    Verdict.COSTS: "costs for",
    Verdict.NO_DIFFERENCE: "makes no relevant difference for",
    Verdict.CANNOT_TELL: "cannot be told for",
}


def sentence(found: Work) -> str:
    """`sd pays for code, math (2 of 5 kinds of work); costs for chat (1).`, and which kinds have only one prompt."""
    parts: list[str] = []
    for verdict, words in SAID.items():
        cases = [each.case for each in found.categories if each.levels[0].verdict is verdict]
        if cases:
            of = f" of {len(found.categories)} kinds of work" if not parts else ""
            parts.append(f"{words} {', '.join(cases)} ({len(cases)}{of})")
    alone = [each.case for each in found.categories if each.prompts == 1 and each.levels[0].speedup]
    noise = f" Measured with one prompt only: {', '.join(alone)}. That interval covers timing noise, not other prompts."
    return f"{found.variant} {'; '.join(parts)}.{noise if alone else ''}"


def row(category: Category) -> list[str]:
    """A category's cells under HEADERS, at the first load."""
    at = category.levels[0]
    return [
        category.case,
        compact(at.speedup) if at.speedup else NONE,
        at.verdict.value,
        length(at.acceptance_length),
        positions(at.accepted_per_position),
        f"{at.identical} of {at.compared}" if at.compared else NONE,
        str(category.prompts),
    ]


def level_headers(found: Work) -> list[str]:
    """Headers of the table by load: a column for each load. Empty if there is one load only."""
    levels = max((each.levels for each in found.categories), key=len)
    return ["kind of work", *(str(each.level) for each in levels)] if len(levels) > 1 else []


def level_row(category: Category, headers: Sequence[str]) -> list[tuple[str, Verdict | None]]:
    """A category's cells under `level_headers`, each with its verdict: speed-up, interval and acceptance length."""
    there = {str(each.level): each for each in category.levels}
    cells = [(_at(there[name]), there[name].verdict) if name in there else (NONE, None) for name in headers[1:]]
    return [(category.case, None), *cells]


def length(value: float | None) -> str:
    """Tokens of a step."""
    return NONE if value is None else f"{value:.2f}"


def positions(accepted: Sequence[float]) -> str:
    """`88 71 55`: of the drafts that got so far, how many were accepted."""
    return " ".join(f"{share:.0%}".rstrip("%") for share in accepted) or NONE


def gain(prompt: PromptGain) -> str:
    """`2.31×, acceptance length 4.10`."""
    accepted = f", acceptance length {length(prompt.acceptance_length)}" if prompt.acceptance_length is not None else ""
    return times(prompt.speedup) + accepted


def cut(prompt: PromptGain) -> str:
    """Text after a prompt that is cut: how long the whole prompt is. Empty if it is not cut."""
    missing = prompt.characters - len(prompt.text)
    return f" … ({prompt.characters:,} characters)" if missing > 0 else ""


def _at(at: CategoryAtLevel) -> str:
    accepted = f", {length(at.acceptance_length)}" if at.acceptance_length is not None else ""
    return (compact(at.speedup) if at.speedup else NONE) + accepted
