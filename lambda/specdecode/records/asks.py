"""A question to an arm that a run holds, and its answer in parts: what lies in the bucket below asks/ (ADR 202)."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_BYTES = 64 * 1024
"""Of a question's document."""
MOST_TOKENS = 4096
"""Most tokens of an answer: an arm may be asked by several people, and answers four at a time."""


class AskQuestion(BaseModel):
    """What the command line puts there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arm: str
    prompt: Annotated[str, StringConstraints(min_length=1)]
    max_tokens: int = Field(ge=1, le=MOST_TOKENS)
    temperature: float = Field(ge=0, le=2)


class AskPart(BaseModel):
    """The text that came since the part before. The last part is `done`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: str = ""
    done: bool = False
    tokens: int | None = None
    """The server's count for the whole answer, with the last part."""
    finish_reason: str | None = None
    error: str = ""
    """Why the answer ends before its end."""
