"""Conversations by turn, as rows of text: for the page and for Markdown."""

from __future__ import annotations

from specdecode.analysis.report.numbers import NONE
from specdecode.analysis.results.comparison import Comparison

COLUMNS = {
    "Conversations": "",
    "Arm": "",
    "Turn": "Which question of its conversation, from 1",
    "TTFT p50": "Time from the request to the first token, ms: half of the requests of this turn had it by then",
    "TTFT p90": "Time from the request to the first token, ms: nine in ten requests of this turn had it by then",
    "Prompt tokens": "Tokens of the whole request, history included, as the server counts them; mean",
    "From prefix cache": "Of the prompt tokens, those that the server had in its prefix cache; mean",
    "Requests": "Completed ones of this turn",
}
"""Heading and what it is."""
HEADERS = tuple(COLUMNS)


def rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """A row for each case, turn and arm. Empty if there are no conversations."""
    found: list[tuple[str, ...]] = []
    for case in comparison.experiment.workload.cases:
        arms = [arm for arm in comparison.arms if arm.case == case.name and arm.turns]
        for turn in sorted({each.turn for arm in arms for each in arm.turns}):
            for arm in arms:
                for each in arm.turns:
                    if each.turn == turn:
                        times = (_ms(each.ttft.p50), _ms(each.ttft.p90))
                        counts = (_tokens(each.prompt_tokens), _tokens(each.cached_tokens))
                        found.append((case.name, arm.variant, str(turn), *times, *counts, str(each.ttft.n)))
    return found


def about(comparison: Comparison) -> str:
    """Note on whose answers the conversations contain, and which servers cache prompt prefixes."""
    caching = comparison.context.prefix_caching
    known = "; ".join(f"{arm} {'on' if on else 'off'}" for arm, on in caching.items())
    return (
        "Each turn contains the turns before it. Their answers are of the arm that was loaded first, so every arm got "
        f"the same text. Prefix caching, as the servers report it: {known or 'not reported'}."
    )


def _tokens(count: float | None) -> str:
    return NONE if count is None else f"{count:,.0f}"


def _ms(seconds: float | None) -> str:
    return NONE if seconds is None else f"{seconds * 1000:.1f} ms"
