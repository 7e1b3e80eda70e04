"""Figures that others published for an experiment's shape."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from specdecode.experiment.base import Frozen, Name, Prose


class Published(Frozen):
    """Output throughput that somebody published for two arms of this shape; the report lays the measured one beside."""

    by: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """Who published it, as `AWS`."""
    case: Name
    """The prompt type whose figure is nearest to what was published."""
    base: Name
    variant: Name
    base_tokens_per_second: float = Field(gt=0)
    tokens_per_second: float = Field(gt=0)
    conditions: Prose = ""
    """Of the published run, where they are not this experiment's."""
    source: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
