"""How long a run may wait for each of its steps."""

from pydantic import Field

from specdecode.experiment.base import Frozen


class Deadlines(Frozen):
    """Longest time of each waiting state, in minutes (at most a week)."""

    staging: int = Field(default=180, ge=1, le=10080)
    capacity: int = Field(default=30, ge=1, le=10080)
    start_check: int = Field(default=30, ge=1, le=10080)
    """Of each group of arms that start together."""
    compile: int = Field(default=120, ge=1, le=10080)
    serve: int = Field(default=90, ge=1, le=10080)
    benchmark: int = Field(default=240, ge=1, le=10080)
