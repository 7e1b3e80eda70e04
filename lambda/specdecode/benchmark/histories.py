"""The conversations of a run: one arm's answers before a turn, the same for every arm; what is stored and unfinished.

The arm that is loaded first in a run answers a conversation turn by turn, each with its own answers before it. These
are stored in the run's folder (`conversations/<case>.json`). Every other arm, round, load and process of the run is
asked with them (ADR 160).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdecode.benchmark.prompts import Prompt
from specdecode.benchmark.results import BadResults, Results
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.records import CONVERSATIONS, RequestRecord
from specdecode.untrusted import Unreadable, parse_json


class Said(BaseModel):
    """One answer, with the hash of its question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Hash of the request, so that an answer to another prompt is not used."""
    tokens: Annotated[int, Field(ge=0, le=2**31)]
    """Tokens by the server's count, reasoning included."""
    text: str


class KeptAnswers(BaseModel):
    """Content of `conversations/<case>.json`: the answers with which all arms are asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    """Whose answers these are."""
    answers: dict[int, Said]
    """Answers by index of the request."""


def file_of(case: str) -> str:
    """Path of a case's answers in a run's folder."""
    return f"{CONVERSATIONS}/{case}.json"


class Histories:
    """Answers of one case: the stored ones, and those of `variant` as they come. A stored answer is never replaced."""

    def __init__(self, variant: str) -> None:
        self.variant = variant
        """Whose answers these are."""
        self._answers: dict[int, Said] = {}
        self._failed: set[int] = set()

    @classmethod
    def kept(cls, data: bytes, *, name: str) -> Histories:
        """Read stored answers. Raises BadResults if `data` is no such file."""
        try:
            found = KeptAnswers.model_validate_json(json.dumps(parse_json(data)))
        except (Unreadable, ValidationError) as error:
            raise BadResults(f"{name} cannot be read, and no arm can be asked without it: {error}") from None
        histories = cls(found.variant)
        histories._answers = dict(found.answers)
        return histories

    def hear(self, record: RequestRecord) -> None:
        """Add an answer of the arm while it is measured. A failed request gives none."""
        if record.warmup or record.index in self._answers:
            return
        if record.error is not None:
            self._failed.add(record.index)
            return
        tokens = record.completion_tokens or len(record.chunks)
        self._answers[record.index] = Said(prompt_sha256=record.prompt_sha256, tokens=tokens, text=content_of(record))

    def before(self, index: int, prompts: Sequence[Prompt]) -> Prompt | None:
        """The request of a turn: earlier questions and answers, then its question. None if an earlier turn has no
        answer.

        Raises BadResults if the stored answers are to other prompts.
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
        """Number of turns after an answer that failed."""
        broken = {index - prompts[index].turn for index in self._failed - self._answers.keys()}
        later = [at for at, prompt in enumerate(prompts) if prompt.turn and at - prompt.turn in broken]
        return sum(1 for at in later if self.before(at, prompts) is None)

    def document(self) -> bytes:
        """Content of the stored file."""
        return KeptAnswers(variant=self.variant, answers=self._answers).model_dump_json(indent=1).encode()


def content_of(record: RequestRecord) -> str:
    """An answer without its reasoning: no chat template wants it back (Qwen3's removes it)."""
    parts, at = [], 0
    for chunk in record.chunks:
        parts.append(record.output[at + chunk.reasoning_chars : at + chunk.chars])
        at += chunk.chars
    return "".join(parts)


class Conversations:
    """Histories of all cases. A case without conversations has a history that is not used."""

    def __init__(self, spec: BenchmarkSpec, results: Results, prompts: Mapping[str, Sequence[Prompt]]) -> None:
        """`prompts`: the measured ones of each case. Raises BadResults if stored answers are to other prompts."""
        self._spec, self._results, self._prompts = spec, results, prompts
        self._histories = {case: self._history(case, asked) for case, asked in prompts.items()}

    def of(self, case: str) -> Histories:
        """Answers so far in the case's conversations."""
        return self._histories[case]

    @property
    def unfinished(self) -> list[str]:
        """Cases whose first arm lacks an answer. That arm is loaded before the others."""
        return [case for case in talking(self._prompts) if not self._histories[case].complete(self._prompts[case])]

    def to_keep(self, case: str, variant: str) -> tuple[str, bytes] | None:
        """Name and content of the file to store after `variant` was loaded. None if it added nothing."""
        if case not in talking(self._prompts) or self._histories[case].variant != variant:
            return None
        return file_of(case), self._histories[case].document()

    def unasked(self) -> list[str]:
        """Turns that no arm is asked since an earlier answer failed: a sentence for each case."""
        found = []
        for case in talking(self._prompts):
            histories, prompts = self._histories[case], self._prompts[case]
            if missing := histories.unasked(prompts):
                found.append(
                    f"{case}: {missing} of {len(prompts)} turns are asked of no arm, as {histories.variant} gave no "
                    "answer to a turn before them."
                )
        return found

    def _history(self, case: str, prompts: Sequence[Prompt]) -> Histories:
        """The stored history, and what the first arm has answered since it was stored."""
        kept = self._results.read(file_of(case))
        first = self._spec.arms[0].variant
        histories = Histories(first) if kept is None else Histories.kept(kept, name=file_of(case))
        for record in self._results.load(histories.variant, case):
            if record.round == self._spec.round and record.index < len(prompts):
                histories.hear(record)
        histories.complete(prompts)  # raises where they are of other prompts
        return histories


def talking(prompts: Mapping[str, Sequence[Prompt]]) -> list[str]:
    """The cases with conversations."""
    return [case for case, asked in prompts.items() if any(prompt.turn for prompt in asked)]
