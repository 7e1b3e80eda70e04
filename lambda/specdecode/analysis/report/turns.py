"""Conversations by turn, as rows of text: for the page and for Markdown."""

from __future__ import annotations

from specdecode.analysis.report.numbers import NONE
from specdecode.analysis.result import Comparison

HEADERS = ("Conversations", "Arm", "Turn", "Requests", "TTFT p50", "TTFT p90", "Prompt tokens", "From prefix cache")


def rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """One for each case, turn and arm; empty where nothing was a conversation."""
    found: list[tuple[str, ...]] = []
    for case in comparison.experiment.workload.cases:
        arms = [arm for arm in comparison.arms if arm.case == case.name and arm.turns]
        for turn in sorted({each.turn for arm in arms for each in arm.turns}):
            for arm in arms:
                for each in arm.turns:
                    if each.turn == turn:
                        times = (_ms(each.ttft.p50), _ms(each.ttft.p90))
                        counts = (_tokens(each.prompt_tokens), _tokens(each.cached_tokens))
                        found.append((case.name, arm.variant, str(turn), str(each.ttft.n), *times, *counts))
    return found


def about(comparison: Comparison) -> str:
    """Whose answers stand in the conversations, and which servers keep the beginnings of prompts."""
    caching = comparison.context.prefix_caching
    known = "; ".join(f"{arm} {'on' if on else 'off'}" for arm, on in caching.items())
    return (
        "Each turn holds the turns before it, with the answers of the arm that was loaded first: every arm was asked "
        f"the same. Prefix caching, as the servers say: {known or 'they do not say'}."
    )


def _tokens(count: float | None) -> str:
    return NONE if count is None else f"{count:,.0f}"


def _ms(seconds: float | None) -> str:
    return NONE if seconds is None else f"{seconds * 1000:.1f} ms"
