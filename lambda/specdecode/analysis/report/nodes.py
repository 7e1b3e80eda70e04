"""The table of the nodes of a run on several of them, for terminal, Markdown and page."""

from __future__ import annotations

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE, compact, digits

HEADERS = ("part", "node", "arms", "tokens/s of {}", "against the others (95% CI)")


def headers(comparison: Comparison) -> list[str]:
    """With the name of the baseline, by which the nodes are told apart."""
    return [text.format(comparison.parts[0].baseline) for text in HEADERS]


def rows(comparison: Comparison) -> list[list[str]]:
    """One for each node; none of a run on one."""
    return [
        [
            str(part.unit),
            part.node or NONE,
            ", ".join(part.variants),
            digits(part.tokens_per_second) if part.tokens_per_second is not None else NONE,
            compact(part.against_others) if part.against_others else NONE,
        ]
        for part in comparison.parts
    ]
