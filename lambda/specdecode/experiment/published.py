"""Figures that others published for an experiment's shape."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from specdecode.experiment.base import Frozen, Name, Prose


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
