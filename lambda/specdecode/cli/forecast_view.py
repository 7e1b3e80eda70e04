"""What `specdecode forecast` prints."""

from __future__ import annotations

from specdecode.cli.output import text_table
from specdecode.escape import line
from specdecode.forecast.result import AtK, Forecast, OfDraft


def forecast_text(found: Forecast) -> str:
    """A table for each draft, and what its figures mean."""
    parts = [_draft(draft) for draft in found.drafts]
    parts.append(
        "Tokens per step (95% interval over prompts). Speculation pays where a step with k drafts takes less than so\n"
        "many plain steps. What a step takes on the engine is not in this forecast: a run measures it.\n"
    )
    return "\n".join(parts)


def _draft(draft: OfDraft) -> str:
    if not draft.categories:
        return f"{line(draft.draft)}: no answer of two tokens or more\n"
    head = ("prompts", "n", *(f"k={at.k}" for at in draft.categories[0].at))
    rows = [(line(own.category), str(own.prompts), *map(_cell, own.at)) for own in draft.categories]
    kind = " (no model)" if draft.kind == "n-gram" else ""
    return f"{line(draft.draft)}{kind}\n{text_table([head, *rows], left=1)}"


def _cell(at: AtK) -> str:
    spread = "" if at.low is None or at.high is None else f" ({at.low:.2f}-{at.high:.2f})"
    return f"{at.tokens_per_step:.2f}{spread}"
