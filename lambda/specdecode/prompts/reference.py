"""How an experiment names prompts of a set: the set and the hash of its file, and a category."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from specdecode import layout
from specdecode.prompts.model import ANY_LENGTH, Length, SetName, Sha256


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PromptsOf(_Frozen):
    """Which prompts a case of kind `set` sends: those of one category of one file."""

    set: SetName
    """Name of the set: one that ships, or a name of yours (`specdecode prompts add`)."""
    sha256: Sha256
    """Of the set's file: its bytes and no others are measured."""
    version: Annotated[str, StringConstraints(max_length=40)] = ""
    """Of the set, for people."""
    category: SetName
    """Category of the set whose prompts are sent."""
    length: Length = ANY_LENGTH
    """`short` for those of fewer than 2,000 characters, `long` for the others."""

    @property
    def reference(self) -> str:
        """`NAME@SHA256`, as records and experiments name it."""
        return f"{self.set}@{self.sha256}"

    @property
    def key(self) -> str:
        """Where the file lies in the bucket, unless the set ships."""
        return layout.prompts_key(self.set, self.sha256)


class SetOf(_Frozen):
    """An entry of `workload.prompts` as a person writes it: one case for each category."""

    set: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?(@[0-9a-f]{64})?$")]
    """Name of a set that ships (`specdecode prompts list`), or NAME@SHA256 as `specdecode prompts add` prints it."""
    categories: tuple[SetName, ...] = ()
    """Of the set: all where it ships, to be named where it does not."""
    length: Length = ANY_LENGTH
    """`short` for prompts of fewer than 2,000 characters, `long` for the others."""
    per_category: int | None = Field(default=None, ge=1, le=100_000)
    """Measured requests of each category: its first prompts. Unset: each prompt once where the set ships, else
    `workload.requests`."""
