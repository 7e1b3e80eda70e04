"""How an experiment names prompts of a set: the set and the hash of its file, and a category."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from specdecode import s3_keys
from specdecode.prompts.prompt_set import ANY_LENGTH, LONGEST_ANSWER, Length, SetName, Sha256


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HubFile(_Frozen):
    """A file of a data set on the Hugging Face hub, at one commit."""

    repo: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$", max_length=128)
    ]
    """The data set, as `owner/name`."""
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    """The commit, 40 hexadecimal digits: branches and tags move."""
    file: Annotated[
        str,
        StringConstraints(
            pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]*/)*[A-Za-z0-9][A-Za-z0-9_.-]*\.jsonl?$", max_length=256
        ),
    ]
    """Path of a JSON or JSON Lines file in the data set."""
    gated: bool = False
    """Needs the Hugging Face token of the deployment, whose account has accepted the data set's terms."""

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision[:12]}:{self.file}"


class PromptsOf(_Frozen):
    """Which prompts a case of kind `set` sends: those of one category of one file."""

    set: SetName
    """Name of the set: one that ships, or a name of yours (`specdecode prompts add`)."""
    sha256: Sha256
    """SHA-256 of the set's file. Only these bytes are measured."""
    version: Annotated[str, StringConstraints(max_length=40)] = ""
    """Version of the set, for people."""
    category: SetName
    """Category of the set whose prompts are sent."""
    length: Length = ANY_LENGTH
    """`short` for those of fewer than 2,000 characters, `long` for the others."""
    hub: HubFile | None = None
    """Where staging fetches the set from, unless the bucket has it already."""

    @property
    def reference(self) -> str:
        """`NAME@SHA256`, as records and experiments name it."""
        return f"{self.set}@{self.sha256}"

    @property
    def key(self) -> str:
        """Where the file lies in the bucket, unless the set ships."""
        return s3_keys.prompts_key(self.set, self.sha256)


class SetOf(_Frozen):
    """An entry of `workload.prompts` as a person writes it: one case for each category."""

    set: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?(@[0-9a-f]{64})?$")]
    """Name of a set that ships (`specdecode prompts list`), or NAME@SHA256 as `specdecode prompts add` prints it."""
    categories: tuple[SetName, ...] = ()
    """Categories of the set. Unset: all, for a set that ships. A set that does not ship needs them here."""
    structured: tuple[SetName, ...] = ()
    """The `categories` whose answers are predictable (code, JSON, lists). A set that ships says it itself."""
    length: Length = ANY_LENGTH
    """`short` for prompts of fewer than 2,000 characters, `long` for the others."""
    hub: HubFile | None = None
    """A file of the Hugging Face hub with the hash that `set` names: a run fetches it before it takes a node."""
    per_category: int | None = Field(default=None, ge=1, le=100_000)
    """Measured prompts of each category: its first ones, and each turn of a conversation is a request. Of a set that
    does not ship: measured requests. Unset: each prompt once where the set ships, else `workload.requests`."""
    output_tokens: int | None = Field(default=None, ge=1, le=LONGEST_ANSWER)
    """Longest answer, of each turn too. Unset: the workload's. A prompt's own goes before it."""
