"""A prompt, and a set of prompts. Plain frozen data; `reading` makes it from files."""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from specdecode.prompts.bound import fewest_tokens

SetName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?$")]
"""Name of a set or a category. It becomes a part of keys and file names."""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Length = Literal["all", "short", "long"]
"""Which prompts of a category: short ones have fewer than LONG_FROM characters."""
ANY_LENGTH: Length = "all"
LONG_FROM = 2000
"""Characters from which on a prompt is long: some 500 tokens of English."""
MAX_TEXT = 2**20
"""Most characters of one turn."""
LONGEST_ANSWER = 2**18
"""Most tokens that can be asked for: the longest context that Qwen3 has by itself (262,144). The record of an answer of
as many chunks can be read (specdecode.benchmark.answer).
"""
ROLES = ("system", "developer", "user", "assistant", "tool")
"""Of messages (OpenAI's API reference, chat completions)."""

VISIBLE = r"\S"
Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=VISIBLE)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PromptRow(_Frozen):
    """One prompt, or the user's side of one conversation."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
    category: SetName
    turns: Annotated[tuple[Text, ...], Field(min_length=1, max_length=100)]
    """What the user says, turn after turn. The answers between are the server's own."""
    system: Text | None = None
    """What the server is told before the first turn."""
    output_tokens: Annotated[int, Field(ge=1, le=LONGEST_ANSWER)] | None = None
    """Longest answer. Unset: the workload's."""
    history: tuple[dict[str, Any], ...] = ()
    """Messages before the first turn that are sent as they are (OpenAI `messages`, a recorded conversation)."""

    @field_validator("history")
    @classmethod
    def _can_be_sent(cls, history: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        for number, message in enumerate(history, 1):
            if why := unsendable(message):
                raise ValueError(f"message {number} {why}")
        return history

    def messages(self, answers: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The turn that follows so many answers, as a chat: system message, history, and what was said so far."""
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        said: list[dict[str, Any]] = []
        for question, answer in zip(self.turns, answers, strict=False):
            said += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return [*system, *self.history, *said, {"role": "user", "content": self.turns[len(answers)]}]

    def transcript(self, answers: Sequence[str] = ()) -> str:
        """The same as one text, each part on a line of its own: what a model without a chat template goes on with."""
        return "\n".join(part.strip("\n") for message in self.messages(answers) if (part := words_of(message)))

    @property
    def asks(self) -> str:
        """A key that is equal for two prompts that send the same text."""
        return json.dumps([self.system, self.history, self.turns], sort_keys=True)

    @property
    def is_plain(self) -> bool:
        """Whether it is one text without a system message or a history: what any endpoint takes."""
        return self.system is None and not self.history

    @property
    def text(self) -> str:
        """The whole text of the first request, without the chat template."""
        return "\n".join(part for message in self.messages() if (part := words_of(message)))

    @property
    def is_long(self) -> bool:
        return len(self.text) >= LONG_FROM

    @property
    def fewest_tokens(self) -> int:
        """A lower bound of the first request's tokens (`fewest_tokens`)."""
        return fewest_tokens(self.text)

    @property
    def whole_text(self) -> str:
        """All that its author wrote: every turn's question too."""
        return "\n".join([self.text, *self.turns[1:]])

    def fewest_tokens_with(self, answer: int) -> int:
        """A lower bound of the last turn's request and its answer, if each answer has `answer` tokens."""
        return fewest_tokens(self.whole_text) + answer * len(self.turns)


def unsendable(message: dict[str, Any]) -> str | None:
    """Why a message of a chat cannot be sent. None if it can."""
    role = message.get("role")
    if role not in ROLES:
        return f"has the role {role!r}; known are {', '.join(ROLES)}"
    calls = role == "assistant" and message.get("tool_calls") and message.get("content") is None
    if words_of(message) is None and not calls:
        return "has a content that is neither text nor a list of text parts (images cannot be sent)"
    return None


def words_of(message: dict[str, Any]) -> str | None:
    """The text of a message, its parts a line each; None if a part is not text."""
    content = message.get("content")
    if isinstance(content, list) and content:
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        if len(texts) == len(content) and all(isinstance(text, str) for text in texts):
            return "\n".join(map(str, texts))
    return content if isinstance(content, str) else None


class PromptSet(_Frozen):
    """A whole file of prompts."""

    name: SetName
    version: Annotated[str, StringConstraints(max_length=40)] = ""
    """From the file's header. Empty for most formats, which have none."""
    licence: Annotated[str, StringConstraints(max_length=200)] = ""
    """From the file's header too."""
    sha256: Sha256
    """SHA-256 of the file's bytes."""
    structured: tuple[SetName, ...] = ()
    """Categories whose answers are predictable, as the header says."""
    rows: Annotated[tuple[PromptRow, ...], Field(min_length=1)]
    skipped: int = 0
    """Number of conversations without a question, or with an empty one. ShareGPT's files have some."""
    labels: tuple[tuple[SetName, str], ...] = ()
    """Categories of the file that would have had the same name: the name of each, and its name in the file."""

    @cached_property
    def _by_category(self) -> dict[str, list[PromptRow]]:
        found: dict[str, list[PromptRow]] = {}
        for row in self.rows:
            found.setdefault(row.category, []).append(row)
        return found

    @property
    def categories(self) -> tuple[str, ...]:
        """In the order in which they first appear."""
        return tuple(self._by_category)

    def of(self, category: str, length: Length = ANY_LENGTH) -> tuple[PromptRow, ...]:
        """The prompts of a category, in the file's order."""
        rows = self._by_category.get(category, [])
        return tuple(row for row in rows if length == ANY_LENGTH or row.is_long == (length == "long"))
