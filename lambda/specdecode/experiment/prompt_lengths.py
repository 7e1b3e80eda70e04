"""Lengths of prompts in the model's own tokens: which prompts to count, the result, and which do not fit."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import Field

from specdecode import s3_keys
from specdecode.experiment.base import Frozen
from specdecode.experiment.model import Experiment
from specdecode.experiment.prompt_sets import shipped
from specdecode.experiment.rules.prompts import FIX, Size, beyond, rows_of, sent, sizes
from specdecode.experiment.workload import TestCase
from specdecode.prompts import PromptRow, PromptSet, about_tokens, most_tokens

TEMPLATE_TOKENS = 200
"""What a chat template adds to a prompt at most, for leaving out the count: Llama 3.1's is the longest of the presets'
models with some 40 tokens (its own system message with two dates). A longer one is found by the smoke step."""
KEPT = 100
"""Longest prompts of a case whose lengths are kept."""


class CountSpec(Frozen):
    """Which prompts to count, and how they will be sent."""

    schema_version: Literal[1] = 1
    model: str
    """Prefix of the staged model whose tokenizer counts."""
    content: str = ""
    """The model's hash (`specdecode.finished`). Empty if it is not known."""
    cases: tuple[TestCase, ...]
    requests: dict[str, int]
    """Case -> its requests at all levels. So many turns of its prompts are sent, from the first on."""
    answers: dict[str, int]
    """Case -> longest answer, for prompts without a length of their own."""
    endpoint: Literal["completions", "chat"]
    thinking: bool | None

    @property
    def key(self) -> str:
        """Where the lengths lie in the bucket: the same question to the same model has the same answer."""
        question = self.model_dump_json(exclude=None if self.content else {"content"})
        return s3_keys.counted_key(sha256(question.encode()).hexdigest())


class PromptLength(Frozen):
    """What a prompt takes of the model's window, with its answers."""

    id: Annotated[str, Field(max_length=256)]
    tokens: Annotated[int, Field(ge=0)]
    """Tokens of the prompt. A conversation counts with all its questions, as in its last request."""
    answer: Annotated[int, Field(ge=1)]
    """Longest answer to each turn."""
    turns: Annotated[int, Field(ge=1)] = 1


class PromptLengths(Frozen):
    """The lengths of the prompts that a CountSpec asks for."""

    schema_version: Literal[1] = 1
    exact: bool
    """Whether the model's own tokenizer counted. If not, only `how` is known."""
    how: Annotated[str, Field(max_length=1000)]
    """The files that counted, or why no file could."""
    cases: dict[str, tuple[PromptLength, ...]]
    """Case -> its KEPT longest prompts, longest first."""


def count_spec(experiment: Experiment, sets: Mapping[str, PromptSet]) -> CountSpec | None:
    """The cases with a prompt that may be too long. None if there is no such case. `sets`: the known sets of the
    bucket, by key. A prompt has at most as many tokens as bytes: if its bytes fit, it need not be counted.
    """
    workload, window = experiment.workload, experiment.window
    if window is None:
        return None
    room = window - (TEMPLATE_TOKENS if workload.endpoint == "chat" else 0)
    cases = tuple(case for case in workload.cases if _may_not_fit(case, experiment, sets, room=room))
    if not cases:
        return None
    return CountSpec(
        model=experiment.target.prefix,
        cases=cases,
        requests={case.name: workload.requests_of(case) for case in cases},
        answers={case.name: workload.output_tokens_of(case) for case in cases},
        endpoint=workload.endpoint,
        thinking=workload.thinking,
    )


def _may_not_fit(case: TestCase, experiment: Experiment, sets: Mapping[str, PromptSet], *, room: int) -> bool:
    found = _set_of(case, sets)
    if case.prompts and found is None:
        return True
    return any(
        tokens + answer * turns > room for _, tokens, answer, turns in sizes(case, found, experiment, most_tokens)
    )


def _set_of(case: TestCase, sets: Mapping[str, PromptSet]) -> PromptSet | None:
    return (shipped(case.prompts.set) or sets.get(case.prompts.key)) if case.prompts else None


class LongestPrompt(Frozen):
    """The request that the smoke step sends to every arm: the longest that will be sent."""

    name: str
    """Its case and its id. For a conversation also its turn, and the length of the answers before it."""
    messages: tuple[dict[str, Any], ...] = ()
    """For the chat endpoint; else empty."""
    text: str = ""
    """For the completions endpoint; else empty."""
    answer: int
    """Longest answer that will be asked for."""
    room: int | None
    """Window of the arms. None for servers that already run: their window is not known."""
    thinking: bool | None


MOST_BYTES = 900_000
"""Largest request of the smoke step, as JSON: it comes in a ConfigMap, which holds 1 MiB (Kubernetes, "ConfigMaps").
Longer prompts, of some 200,000 tokens, are left to the count before."""
WORD = " and"
"""One token in the vocabularies of the presets' models. It stands for answers that do not exist yet."""


def longest_prompt(experiment: Experiment, sets: Mapping[str, PromptSet]) -> LongestPrompt | None:
    """The longest prompt of kinds `text` and `set` with its answers, by an estimate. None if there is none. For a
    conversation, the last turn, after answers of the greatest length.
    """
    workload, found = experiment.workload, []
    for case in workload.cases:
        for row in sent(rows_of(case, _set_of(case, sets)), workload.requests_of(case)):
            answer = row.output_tokens or workload.output_tokens_of(case)
            found.append((about_tokens(row.whole_text) + answer * len(row.turns), case.name, answer, row))
    for _, case_name, answer, row in sorted(found, key=lambda item: item[:2], reverse=True):
        longest = _last_request(row, case_name, answer, experiment)
        if len(longest.model_dump_json().encode()) <= MOST_BYTES:
            return longest
    return None


def _last_request(row: PromptRow, case: str, answer: int, experiment: Experiment) -> LongestPrompt:
    answers = [WORD * answer] * (len(row.turns) - 1)
    chat = experiment.workload.endpoint == "chat"
    name = case if row.id == case else f"{case}/{row.id}"
    return LongestPrompt(
        name=name + (f" (turn {len(row.turns)}, the answers before it of {answer} tokens each)" if answers else ""),
        messages=tuple(row.messages(answers)) if chat else (),
        text="" if chat else row.transcript(answers),
        answer=answer,
        room=experiment.window,
        thinking=experiment.workload.thinking,
    )


def do_not_fit(lengths: PromptLengths, experiment: Experiment) -> Iterator[str]:
    """A line for each case with prompts that do not fit into the model's window."""
    for name, counted in lengths.cases.items() if lengths.exact else ():
        rows: Iterable[Size] = ((each.id, each.tokens, each.answer, each.turns) for each in counted)
        if said := beyond(rows, experiment, counted="has"):
            yield f"workload.cases.{name}: {said}; {FIX}"
