"""Base types of all parts of an experiment: frozen models, and texts of a known form; and its deadlines."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, StringConstraints

from specdecode.untrusted import MOST_DOLLARS

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?$")]
"""Lower-case name usable in Kubernetes object names, S3 keys and file names."""

Label = Annotated[str, StringConstraints(pattern=r"^[!-9;-~][ -~]{0,254}$")]
"""Value of a CloudWatch dimension: ASCII, not empty, no leading colon."""

EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]

PricePerHour = Annotated[float, Field(ge=0, le=MOST_DOLLARS)]
"""US dollars for an hour of a machine."""

MOST_ROUNDS = 100
"""Most rounds of a record. An experiment has fewer."""
MOST_DRAFTED = 32
"""Largest k of an experiment."""

Argument = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$", max_length=16384)]
"""An argument or a variable of a process. Tab and newline are the only control characters in it."""

LONGEST_TITLE = 200
Prose = Annotated[str, StringConstraints(max_length=4000)]
"""Text that people read; it decides nothing."""

EndpointSecret = Annotated[str, StringConstraints(pattern=r"^endpoint-[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$")]
"""Name of a Secret whose key is meant for a server. A document can name no other Secret."""


Item = TypeVar("Item")
Many = Annotated[tuple[Item, ...], FailFast()]
"""A list of what is read from outside. The first wrong item ends it: each problem takes 400 bytes of memory."""


class Frozen(BaseModel):
    """Base of all experiment parts: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Deadlines(Frozen):
    """Longest time of each waiting state, in minutes (at most a week)."""

    staging: int = Field(default=180, ge=1, le=10080)
    capacity: int = Field(default=30, ge=1, le=10080)
    start_check: int = Field(default=30, ge=1, le=10080)
    """Of each group of arms that start together."""
    compile: int = Field(default=120, ge=1, le=10080)
    serve: int = Field(default=90, ge=1, le=10080)
    benchmark: int = Field(default=240, ge=1, le=10080)
