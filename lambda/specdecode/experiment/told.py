"""Figures of an experiment that were told before it ran: published ones, and its forecast."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from specdecode.experiment.base import MOST_DRAFTED, Frozen, Name, Prose

MOST_FORECAST = 400
"""Most drafts times types of prompts."""


class Published(Frozen):
    """Output throughput that somebody published for two arms of this shape. The report shows the measured one beside
    it.
    """

    by: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """Who published it, as `AWS`."""
    case: Name
    """The prompt type whose figure is nearest to what was published."""
    base: Name
    variant: Name
    base_tokens_per_second: float = Field(gt=0)
    tokens_per_second: float = Field(gt=0)
    model: Annotated[str, StringConstraints(max_length=128)] | None = None
    """Target of the published run, as the hub names it; this and the next two are None if the source does not say."""
    tensor_parallel_size: int | None = Field(default=None, ge=1)
    concurrency: int | None = Field(default=None, ge=1)
    """Requests at a time."""
    conditions: Prose = ""
    """Further conditions of the published run: prompts, hardware, acceptance."""
    source: Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class Forecasted(Frozen):
    """Tokens per step of one draft on one type of prompts, as `specdecode forecast --write` told it from answers."""

    draft: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    """The draft's id."""
    case: Name
    """The type of prompts: a case of the experiment, or `all`."""
    prompts: int = Field(ge=1)
    at: tuple[tuple[int, float, float], ...] = Field(min_length=1, max_length=MOST_DRAFTED)
    """`[k, tokens per step, relative standard error]`."""

    @field_validator("at")
    @classmethod
    def _are_figures_of_steps(cls, at: tuple[tuple[int, float, float], ...]) -> tuple[tuple[int, float, float], ...]:
        if not all(k >= 1 and 1 <= tokens <= k + 1 and 0 <= error <= 1 for k, tokens, error in at):
            raise ValueError("each is [k, tokens per step from 1 to k + 1, relative standard error from 0 to 1]")
        return at
