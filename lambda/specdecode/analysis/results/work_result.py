"""What speculation does for each kind of work, as data: a category of a set of prompts, and its extreme prompts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from specdecode.analysis.results.parts import Estimate, Verdict
from specdecode.experiment.level import Level
from specdecode.experiment.model import Frozen
from specdecode.measures.distribution import Count

TEXT_KEPT = 1000
"""Characters of a prompt that a report keeps."""


class PromptGain(Frozen):
    """One prompt, its rounds averaged."""

    id: str
    text: Annotated[str, Field(max_length=TEXT_KEPT)] = ""
    """Its first request, or the beginning of it; empty where the set is not at hand."""
    characters: Count = 0
    """Of the whole text."""
    speedup: float = Field(gt=0)
    """On the headline metric. Of one prompt there is no interval."""
    acceptance_length: float | None = None
    """Tokens of a step that had drafts; None where the server does not say it of single requests."""


class CategoryAtLevel(Frozen):
    """A category at one load."""

    level: Level
    verdict: Verdict
    speedup: Estimate | None
    """With its interval over the category's prompts."""
    acceptance_length: float | None = None
    accepted_per_position: tuple[float, ...] = ()
    """Acceptance at each position, given that those before were accepted."""
    compared: Count = 0
    identical: Count = 0
    """Of the compared answers, those equal character for character."""


class Category(Frozen):
    """One kind of work."""

    case: str
    prompts: Count
    """Different prompts that both arms completed."""
    levels: Annotated[tuple[CategoryAtLevel, ...], Field(min_length=1)]
    """The first is the load that all verdicts are about."""
    most: tuple[PromptGain, ...] = ()
    """Prompts that gained most, the largest gain first, at the first load; picked after the fact."""
    least: tuple[PromptGain, ...] = ()
    """Those that gained least, the smallest gain first."""


class Work(Frozen):
    """One arm against its baseline by kind of work."""

    variant: str
    baseline: str
    categories: Annotated[tuple[Category, ...], Field(min_length=1)]
