"""Results by kind of work, as data: the categories of a set of prompts, and their extreme prompts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from specdecode.analysis.results.parts import Estimate, Verdict
from specdecode.experiment.model import Frozen
from specdecode.experiment.workload import Level
from specdecode.measures.distribution import Count

TEXT_KEPT = 1000
"""Characters of a prompt that a report keeps."""


class PromptGain(Frozen):
    """Figures of one prompt: mean over its rounds."""

    id: str
    text: Annotated[str, Field(max_length=TEXT_KEPT)] = ""
    """Text of its first request, cut to TEXT_KEPT characters. Empty if the set is not at hand."""
    characters: Count = 0
    """Characters of the whole text."""
    speedup: float = Field(gt=0)
    """Speed-up on the headline metric. A single prompt has no interval."""
    acceptance_length: float | None = None
    """Tokens of a step that had drafts. None if the server does not say so for single requests."""


class CategoryAtLevel(Frozen):
    """A category at one load."""

    level: Level
    verdict: Verdict
    speedup: Estimate | None
    """Speed-up with its interval over the category's prompts."""
    acceptance_length: float | None = None
    accepted_per_position: tuple[float, ...] = ()
    """Acceptance at each position, given that all positions before it were accepted."""
    compared: Count = 0
    identical: Count = 0
    """Compared answers that are equal character for character."""


class Category(Frozen):
    """One kind of work."""

    case: str
    prompts: Count
    """Different prompts that both arms completed."""
    levels: Annotated[tuple[CategoryAtLevel, ...], Field(min_length=1)]
    """Results by load. All verdicts are about the first."""
    most: tuple[PromptGain, ...] = ()
    """Prompts that gained most at the first load, the largest gain first. They were picked after the measurement."""
    least: tuple[PromptGain, ...] = ()
    """Prompts that gained least, the smallest gain first."""


class Work(Frozen):
    """One arm against its baseline by kind of work."""

    variant: str
    baseline: str
    categories: Annotated[tuple[Category, ...], Field(min_length=1)]
