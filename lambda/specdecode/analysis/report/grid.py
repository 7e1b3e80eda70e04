"""Results of a sweep by draft and number of speculative tokens."""

from __future__ import annotations

from typing import NamedTuple

from specdecode.analysis.advice.sweep import speculative
from specdecode.analysis.results.comparison import Comparison, GroupResult


class Grid(NamedTuple):
    """Table of a sweep, over all cases."""

    ks: tuple[int, ...]
    """Numbers of speculative tokens, the smallest first: the columns."""
    rows: dict[str, dict[int, GroupResult]]
    """Draft -> k -> result; no entry for a k that was not measured."""


def grid(comparison: Comparison) -> Grid:
    """Each arm that differs from its baseline by speculation alone, and drafts one number of tokens at every load."""
    of_one_k = {v.name: s for v in speculative(comparison.experiment) if (s := v.speculation)}
    points = [(s.draft.id, s.num_speculative_tokens) for s in of_one_k.values()]
    rows: dict[str, dict[int, GroupResult]] = {draft: {} for draft, _ in points}
    for pair in comparison.pairs:
        speculation, total = of_one_k.get(pair.variant), pair.group("all")
        if speculation and total and pair.changes == ("speculation",):
            rows[speculation.draft.id][speculation.num_speculative_tokens] = total
    return Grid(ks=tuple(sorted({k for _, k in points})), rows=rows)
