"""What was said before a turn of a conversation: one arm's answers, the same for every arm.

The arm that is loaded first in a run answers a conversation turn by turn, each with its own answers before it. These
are kept in the run's folder (`conversations/<case>.json`), and every other arm, round, load and process of the run
is asked with them (ADR 160).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdecode.benchmark.prompts import Prompt
from specdecode.benchmark.results import BadResults
from specdecode.records import CONVERSATIONS, RequestRecord
from specdecode.untrusted import Unreadable, parse_json


class Said(BaseModel):
    """One answer, and which question it is to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Of the request, so that an answer to another prompt is not taken for it."""
    tokens: Annotated[int, Field(ge=0, le=2**31)]
    """As the server counted them; its reasoning is among them."""
    text: str


class KeptAnswers(BaseModel):
    """`conversations/<case>.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    """Whose answers these are."""
    answers: dict[int, Said]
    """By the index of the request."""


def file_of(case: str) -> str:
    """Where a case's answers lie in a run's folder."""
    return f"{CONVERSATIONS}/{case}.json"


class Histories:
    """The answers of one case: those that were kept, and those of `variant` as they come. What is there stays."""

    def __init__(self, variant: str) -> None:
        self.variant = variant
        """Whose answers these are."""
        self._answers: dict[int, Said] = {}
        self._failed: set[int] = set()

    @classmethod
    def kept(cls, data: bytes, *, name: str) -> Histories:
        """Raises BadResults: `data` is no such file."""
        try:
            found = KeptAnswers.model_validate_json(json.dumps(parse_json(data)))
        except (Unreadable, ValidationError) as error:
            raise BadResults(f"{name} cannot be read, and no arm can be asked without it: {error}") from None
        histories = cls(found.variant)
        histories._answers = dict(found.answers)
        return histories

    def hear(self, record: RequestRecord) -> None:
        """Take an answer of the arm while it is measured; a failed request gives none."""
        if record.warmup or record.index in self._answers:
            return
        if record.error is not None:
            self._failed.add(record.index)
            return
        tokens = record.completion_tokens or len(record.chunks)
        self._answers[record.index] = Said(prompt_sha256=record.prompt_sha256, tokens=tokens, text=content_of(record))

    def before(self, index: int, prompts: Sequence[Prompt]) -> Prompt | None:
        """The request of a turn: what was said before it, and the question; None where an earlier turn has no answer.

        Raises BadResults: the answers that were kept are not to these prompts.
        """
        answers: list[str] = []
        tokens = 0
        for at in range(index - prompts[index].turn, index):
            said = self._answers.get(at)
            if said is None:
                return None
            if said.prompt_sha256 != prompts[at].after(answers).sha256:
                raise BadResults(f"the answers that were kept of {self.variant} are not to the prompts of this run")
            answers.append(said.text)
            tokens += said.tokens
        return prompts[index].after(answers, tokens=tokens)

    def complete(self, prompts: Sequence[Prompt]) -> bool:
        """Whether every turn can be asked. Raises BadResults, as `before`."""
        return all([self.before(index, prompts) is not None for index in range(len(prompts))])

    def unasked(self, prompts: Sequence[Prompt]) -> int:
        """How many turns follow an answer that broke off."""
        broken = {index - prompts[index].turn for index in self._failed - self._answers.keys()}
        later = [at for at, prompt in enumerate(prompts) if prompt.turn and at - prompt.turn in broken]
        return sum(1 for at in later if self.before(at, prompts) is None)

    def document(self) -> bytes:
        """What is kept."""
        return KeptAnswers(variant=self.variant, answers=self._answers).model_dump_json(indent=1).encode()


def content_of(record: RequestRecord) -> str:
    """An answer without its reasoning, which no chat template wants back (Qwen3's strips it)."""
    parts, at = [], 0
    for chunk in record.chunks:
        parts.append(record.output[at + chunk.reasoning_chars : at + chunk.chars])
        at += chunk.chars
    return "".join(parts)
