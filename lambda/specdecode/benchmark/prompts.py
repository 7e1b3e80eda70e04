"""The prompts of a case: the same list for every arm.

`line` and `sonnet` are built as LLMPerf builds them (`randomly_sample_sonnet_lines_prompt`): its preamble, then the
shuffled lines of its corpus, its random numbers in its order. For `line` the corpus is the case's text 500 times, as
the public sample makes it.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specdecode.assets import assets_dir
from specdecode.benchmark.tokens import TokenCounter
from specdecode.experiment.prompt_sets import shipped
from specdecode.experiment.workload import Load, PromptKind, TestCase, Workload
from specdecode.prompts import BadPromptSet, PromptRow, PromptSet, read_set
from specdecode.records import SetFacts
from specdecode.untrusted import Unreadable, read_file

CORPUS_LINES = 500
"""How often the public sample repeats a case's line (`yes "$PROMPT" | head -n 500`)."""

FETCHED = Path("prompts")
"""Folder, below the working directory, with the sets that a pod fetched from the bucket."""


class BadPrompts(ValueError):
    """A case's prompts cannot be made; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    text: str
    input_tokens: int
    """Tokens that were asked for; for a prompt that is sent unchanged, its counted tokens."""
    output_tokens: int | None = None
    """Overrides the workload's."""
    messages: tuple[dict[str, Any], ...] | None = None
    set: str | None = None
    """NAME@SHA256 of the prompt's set. None if it comes from no set."""
    id: str | None = None
    """Id in the set. Prompts of a case with the same text have the first one's id: they are one observation."""
    row: PromptRow | None = None
    """The whole conversation. None for a single prompt."""
    turn: int = 0
    """Number of the turn in its conversation, from 0."""
    as_llmperf: bool = False
    """Chat requests carry LLMPerf's empty system message."""

    @property
    def identity(self) -> str:
        """Identity of a prompt: its text, or its messages."""
        return self.text if self.messages is None else json.dumps(self.messages, sort_keys=True)

    @property
    def sha256(self) -> str:
        """Hash of `identity`, in hexadecimal digits."""
        return hashlib.sha256(self.identity.encode()).hexdigest()

    @property
    def chat(self) -> tuple[dict[str, Any], ...]:
        """The messages with which the chat endpoint is asked."""
        if self.messages is not None:
            return self.messages
        system = ({"role": "system", "content": ""},) if self.as_llmperf else ()
        return (*system, {"role": "user", "content": self.text})

    def after(self, answers: Sequence[str], *, tokens: int = 0) -> Prompt:
        """The question after the earlier turns with their `answers`, one each, of `tokens` tokens together."""
        if self.row is None or not self.turn:
            return self
        messages = None if self.messages is None else tuple(self.row.messages(answers))
        return replace(
            self, text=self.row.transcript(answers), messages=messages, input_tokens=self.input_tokens + tokens
        )


def prompts_of(
    case: TestCase, workload: Workload, counter: TokenCounter, *, count: int, warmups: int = 0, whole: bool = False
) -> list[Prompt]:
    """`count` prompts to measure, or a `whole` set once; then `warmups` others for the warm-up, if the case has more.
    Raises BadPrompts.
    """
    answer = workload.output_tokens_of(case)
    made = _prompts_of(case, workload.model_copy(update={"output_tokens": answer}), counter, count, warmups, whole)
    return [prompt if prompt.output_tokens else replace(prompt, output_tokens=answer) for prompt in made]


def _prompts_of(
    case: TestCase, workload: Workload, counter: TokenCounter, count: int, warmups: int, whole: bool
) -> list[Prompt]:
    match case.kind:
        case PromptKind.LINE:
            return _sampled([case.text + "\n"] * CORPUS_LINES, workload, counter, count + warmups)
        case PromptKind.SONNET:
            sonnets = (assets_dir() / "prompts" / "sonnets.txt").read_text().splitlines(keepends=True)
            return _sampled(sonnets, workload, counter, count + warmups)
        case PromptKind.TEXT:
            return [Prompt(text=case.text, input_tokens=counter.count(case.text))] * (count + warmups)
        case PromptKind.SET:
            given = _of_set(case, workload, counter)
            count = len(given) if whole else count
            unused = [prompt for prompt in given[count:] if not prompt.turn] or [
                _warmup(counter, number) for number in range(warmups)
            ]
            measured = [given[index % len(given)] for index in range(count)]
            return measured + [unused[index % len(unused)] for index in range(warmups)]


def longest(cases: Iterable[Sequence[Prompt]]) -> Prompt:
    """The longest prompt, for the probe: what takes it takes all. A word before it keeps it out of prefix caches."""
    found = max(
        (prompt for prompts in cases for prompt in prompts if not prompt.turn), key=lambda prompt: prompt.input_tokens
    )
    if found.messages is None:
        return replace(found, text=f"Probe: {found.text}")
    first, *others = found.messages
    return replace(found, messages=({**first, "content": f"Probe: {first.get('content')}"}, *others))


def _warmup(counter: TokenCounter, number: int) -> Prompt:
    """Warm-up prompt for a set whose prompts are all measured: no part of them may be in a server's prefix cache."""
    text = f"Warm-up {number}: say in a few sentences what you can help with."
    return Prompt(text=text, input_tokens=counter.count(text))


def preamble(output_tokens: int) -> str:
    """LLMPerf's text before its lines."""
    return (
        f"Randomly stream lines from the following text with {output_tokens} output tokens. "
        "Don't generate eos tokens:\n\n"
    )


def _sampled(corpus: Sequence[str], workload: Workload, counter: TokenCounter, count: int) -> list[Prompt]:
    rng = random.Random(workload.seed)
    prompts = []
    for _ in range(count):
        output_tokens = int(rng.gauss(workload.output_tokens, 0))
        target = int(rng.gauss(workload.input_tokens, 0))
        text = _sampled_prompt(corpus, target, preamble(output_tokens), rng, counter)
        prompts.append(Prompt(text=text, input_tokens=target, as_llmperf=True))
    return prompts


def _sampled_prompt(corpus: Sequence[str], target: int, start: str, rng: random.Random, counter: TokenCounter) -> str:
    """LLMPerf's loop.

    LLMPerf cuts the last line at as many *characters* as tokens are missing. With the model's own tokenizer the cut is
    at the token, so that the length is the one that was asked for.
    """
    remaining = target - counter.count(start)
    lines = list(corpus)
    rng.shuffle(lines)
    pieces = [start]
    while remaining > 0:
        for line in lines:
            tokens = counter.count(line)
            if tokens > remaining:
                pieces.append(line[: math.ceil(remaining)])
                return counter.cut("".join([*pieces[:-1], line]), target) if counter.exact else "".join(pieces)
            pieces.append(line)
            remaining -= tokens
    return "".join(pieces)


def _of_set(case: TestCase, workload: Workload, counter: TokenCounter) -> list[Prompt]:
    """The prompts of a case of kind `set`, in the set's order."""
    given = case.prompts
    if given is None:
        raise BadPrompts(f"case {case.name}: kind is set and `prompts` is missing")
    rows = find_set(case).of(given.category, given.length)
    if not rows:
        raise BadPrompts(f"case {case.name}: the set {given.set} has no {given.length} prompt of {given.category}")
    chat = workload.endpoint == "chat"
    if not chat and (row := next((row for row in rows if not row.is_plain), None)):
        raise BadPrompts(
            f"case {case.name}: prompt {row.id} has a system message or a history, which the completions endpoint "
            "does not take; set workload.endpoint to chat"
        )
    if workload.load is Load.SIMULTANEOUS and (row := next((row for row in rows if len(row.turns) > 1), None)):
        raise BadPrompts(
            f"case {case.name}: {row.id} is a conversation, and its next turn holds the first arm's answer, which is "
            "not there while all arms are loaded at once; set workload.load to interleaved or sequential"
        )
    first: dict[str, str] = {}
    return [
        Prompt(
            text=row.text if not turn else row.turns[turn],
            input_tokens=counter.count("\n".join([row.text, *row.turns[1 : turn + 1]])),
            output_tokens=row.output_tokens,
            messages=tuple(row.messages()) if chat and not (row.is_plain and len(row.turns) == 1) else None,
            set=given.reference,
            id=first.setdefault(row.asks, row.id),
            row=row if len(row.turns) > 1 else None,
            turn=turn,
        )
        for row in rows
        for turn in range(len(row.turns))
    ]


def sets_of(workload: Workload) -> tuple[SetFacts, ...]:
    """Facts about the sets that a workload sends. Raises BadPrompts, as `find_set`."""
    first = {case.prompts.reference: case for case in reversed(workload.cases) if case.prompts is not None}
    found = [find_set(case) for case in reversed(first.values())]
    return tuple(
        SetFacts(name=each.name, version=each.version, licence=each.licence, sha256=each.sha256, prompts=len(each.rows))
        for each in found
    )


def find_set(case: TestCase) -> PromptSet:
    """The set of a case: a file that the command line named, a set that ships, or a set in FETCHED.

    Raises BadPrompts if it is missing, is no set, or has another hash than the experiment says.
    """
    given = case.prompts
    assert given is not None  # noqa: S101 - narrows the type
    found = shipped(given.set) if not case.text else None
    if found is None:
        path = Path(case.text) if case.text else FETCHED / Path(given.key).name
        try:
            found = read_set(read_file(path), name=given.set)
        except Unreadable as error:
            raise BadPrompts(f"case {case.name}: cannot read the prompts in {str(path)!r}: {error}") from None
        except BadPromptSet as error:
            raise BadPrompts(f"case {case.name}: {error}") from None
    if found.sha256 != given.sha256:
        raise BadPrompts(
            f"case {case.name}: the set {given.set} has the SHA-256 {found.sha256}, and {given.sha256} is meant"
        )
    return found
