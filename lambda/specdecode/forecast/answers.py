"""A target's answers, with the prompts that they answer: from a run's records, or from a log.

Texts stay in memory: no result of a forecast holds a prompt or an answer.
"""

import hashlib
import json
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from specdecode.benchmark.histories import Histories
from specdecode.benchmark.prompts import BadPrompts, Prompt, prompts_of
from specdecode.benchmark.results import BadResults
from specdecode.benchmark.tokens import TokenCounter
from specdecode.experiment.model import Experiment
from specdecode.experiment.workload import Workload
from specdecode.prompts.categories import category_of
from specdecode.prompts.formats import ANSWERS, ASKS, INSTRUCTS
from specdecode.prompts.prompt_set import PromptSet, words_of
from specdecode.records import RequestRecord
from specdecode.untrusted import Unreadable, WrongInput, edges, parse_json, read_file, read_lines

MOST_ANSWERS = 2_000
"""Answers that are read unless the user asks for others: enough for ranges of a percent or two."""
MOST_LINE = 8 * 2**20
"""Most bytes of one line of a log: a prompt of a million tokens."""
MOST_CATEGORIES = 40
"""A log with more is of one category: its categories are free text, and names of people are none."""
SAMPLED = (
    "answers were sampled (temperature above 0): the forecast is right on average, for an engine that accepts a "
    "drafted token with the target's probability of it (vLLM's default)"
)
SHOWN = 5
"""Most bad lines that a message names."""

Messages = tuple[dict[str, Any], ...]


class BadAnswers(WrongInput):
    """No answer can be read. The message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class WrittenAnswer:
    """One answer of the target. Ids of tokens are the server's own; without them the text is tokenized again."""

    category: str
    prompt: str | Messages
    """A text that the model goes on with, or the messages of a chat."""
    text: str
    prompt_ids: tuple[int, ...] = ()
    answer_ids: tuple[int, ...] = ()
    counted: int | None = None
    """Tokens of the answer by its server's count."""
    prompt_counted: int | None = None
    thinking: bool | None = None
    """What the chat template was told of Qwen3's thinking mode. None: nothing."""
    sampled: bool = False
    """Whether its record says that the temperature was above 0."""

    @property
    def asks(self) -> str:
        """A key that is equal for two answers to one prompt: together they are one observation."""
        return hashlib.sha256(json.dumps(self.prompt, sort_keys=True).encode()).hexdigest()


class ToAnswer(NamedTuple):
    """A prompt that a server of the target is to answer."""

    category: str
    prompt: str | Messages
    output_tokens: int
    thinking: bool | None = None


@dataclass(frozen=True, kw_only=True)
class WrittenAnswers:
    """All answers of one source."""

    found: tuple[WrittenAnswer, ...]
    left_out: tuple[str, ...] = ()
    """What was left out and why, a line each."""


def of_log(path: Path, *, most: int = MOST_ANSWERS) -> WrittenAnswers:
    """The first `most` answers of a file of JSON Lines, of which no more is read; or of one JSON array, as ShareGPT's
    files are. Raises BadAnswers.

    A line is a chat that ends with the assistant's message (`messages`, ShareGPT's `conversations`), a pair of
    `prompt` and `answer` (or `completion`, `response`, `output`), or a pair of OpenAI's `request` and `response`.
    Beside each may stand `prompt_token_ids` and `token_ids`, as vLLM gives them for `return_token_ids`.
    """
    found: list[WrittenAnswer] = []
    problems: list[str] = []
    bad = 0
    for where, entry in _entries(path):
        try:
            found.append(_answer(parse_json(entry) if isinstance(entry, bytes) else entry))
        except (Unreadable, ValueError) as error:
            bad += 1
            if bad <= SHOWN:
                problems.append(f"{path} {where}: {error}")
        if len(found) == most:
            problems.append(f"{path}: its first {most} answers were read, and no more (--most-answers)")
            break
    if bad > SHOWN:
        problems.append(f"{path}: {bad - SHOWN} more lines without an answer")
    if not found:
        raise BadAnswers("\n".join(problems) or f"{path} is empty")
    if sampled := sum(answer.sampled for answer in found):
        problems.append(f"{path}: {sampled} of {len(found)} {SAMPLED}")
    if len({answer.category for answer in found}) > MOST_CATEGORIES:
        found = [replace(answer, category="all") for answer in found]
    return WrittenAnswers(found=tuple(found), left_out=tuple(problems))


def of_run(
    load: Workload, arm: str, records: Sequence[RequestRecord], *, counter: TokenCounter, most: int = MOST_ANSWERS
) -> WrittenAnswers:
    """The answers of a run's first arm, each prompt once. The records hold no prompts: these are made again, and one
    that is not the one that was sent is left out. Raises BadAnswers.
    """
    left_out, found = [], []
    for case in load.cases:
        own = [record for record in records if record.case == case.name and record.variant == arm]
        answered = {
            record.prompt_sha256: record for record in own if record.output and not (record.warmup or record.error)
        }
        try:
            made = prompts_of(case, load, counter, count=load.requests_of(case))
        except BadPrompts as error:
            left_out.append(str(error))
            continue
        sent = {prompt.sha256: prompt for prompt in _asked_of(arm, own, made) if prompt.sha256 in answered}
        if len(sent) < len(answered):
            left_out.append(
                f"{case.name}: {len(answered) - len(sent)} of {len(answered)} prompts cannot be made again; with the "
                "target's tokenizer they can, if their lengths were counted with it: --tokenizer FOLDER"
            )
        found += [
            WrittenAnswer(
                category=case.name,
                prompt=prompt.chat if load.endpoint == "chat" else prompt.text,
                text=answered[key].output,
                counted=answered[key].completion_tokens,
                prompt_counted=answered[key].prompt_tokens,
                thinking=load.thinking,
            )
            for key, prompt in sent.items()
        ]
    if not found:
        raise BadAnswers("\n".join(left_out) or f"the run has no answer of {arm}")
    if load.temperature > 0:
        left_out.append(f"the {SAMPLED}")
    if len(found) > most:
        left_out.append(f"only {most} of {len(found)} answers are read")
    each = max(1, most // len({answer.category for answer in found}))
    parts = (islice(own, each) for _, own in groupby(found, key=lambda answer: answer.category))
    return WrittenAnswers(found=tuple(chain.from_iterable(parts)), left_out=tuple(left_out))


def _asked_of(arm: str, records: Sequence[RequestRecord], made: Sequence[Prompt]) -> Iterator[Prompt]:
    """The prompts, a later turn of a conversation with the arm's own answers before it."""
    said = Histories(arm)
    for record in sorted(records, key=lambda record: record.round):
        said.hear(record)
    for index in range(len(made)):
        with suppress(BadResults):  # a turn before it was another prompt
            if prompt := said.before(index, made):
                yield prompt


def questions_of(experiment: Experiment, counter: TokenCounter) -> list[ToAnswer]:
    """What the experiment asks, each prompt once. Raises BadAnswers."""
    load, chat = experiment.workload, experiment.workload.endpoint == "chat"
    try:
        made = {
            (case.name, prompt.sha256): ToAnswer(
                case.name, prompt.chat if chat else prompt.text, load.output_tokens_of(case), load.thinking
            )
            for case in load.cases
            for prompt in prompts_of(case, load, counter, count=load.requests_of(case))
        }
    except BadPrompts as error:
        raise BadAnswers(str(error)) from None
    return list(made.values())


def questions_of_set(prompts: PromptSet, *, output_tokens: int) -> list[ToAnswer]:
    """The first question of every prompt of a set: a text if it is one, else a chat."""
    return [
        ToAnswer(row.category, row.text if row.is_plain else tuple(row.messages()), row.output_tokens or output_tokens)
        for row in prompts.rows
    ]


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Where an entry is, and its line (bytes) or, of a file that is one array, its value. Raises BadAnswers."""
    fix = "JSON Lines are needed"
    try:
        begin, end = edges(path)
        if begin.removeprefix(BOM_UTF8).lstrip().startswith(b"[") and end.rstrip().endswith(b"]"):
            fix = f"jq -c '.[]' {quote(str(path))} makes JSON Lines of an array"
            found = _list(parse_json(read_file(path).removeprefix(BOM_UTF8)), "the file")
            yield from ((f"entry {number}", entry) for number, entry in enumerate(found, 1))
        else:
            for number, line in read_lines(path, limit=MOST_LINE):
                yield f"line {number}", line.removeprefix(BOM_UTF8) if number == 1 else line
    except Unreadable as error:
        raise BadAnswers(f"{path}: {error}: {fix}") from None


def _answer(entry: Any) -> WrittenAnswer:
    """The answer of one line. Raises ValueError, in words for whoever made the file."""
    if not isinstance(entry, dict):
        raise ValueError("is no JSON object")
    prompt, texts = entry.get("prompt"), (entry.get(key) for key in ("answer", "completion", "response", "output"))
    text = next((text for text in texts if isinstance(text, str)), "")
    category = category_of(entry.get("category")) if entry.get("category") else "all"
    if "request" in entry and "response" in entry:
        found = of_exchange(entry["request"], entry["response"], category)
    elif "messages" in entry:
        found = _chat(entry["messages"], category)
    elif "conversations" in entry:
        found = _chat([_message(each) for each in _list(entry["conversations"], "conversations")], category)
    elif text and isinstance(prompt, str | list):
        asked = prompt if isinstance(prompt, str) else _messages(prompt)
        found = WrittenAnswer(category=category, prompt=asked, text=text)
    else:
        raise ValueError(
            "has no `messages`, no `conversations`, no `request` with `response`, and no `prompt` with `answer`"
        )
    return replace(
        found,
        prompt_ids=_ids(entry.get("prompt_token_ids")) or found.prompt_ids,
        answer_ids=_ids(entry.get("token_ids")) or found.answer_ids,
        sampled=found.sampled or _sampled(entry),
    )


def _sampled(request: dict[str, Any]) -> bool:
    temperature = request.get("temperature")
    return isinstance(temperature, int | float) and temperature > 0


def of_exchange(request: Any, response: Any, category: str) -> WrittenAnswer:
    """A request to OpenAI's API and its answer, not streamed. Raises ValueError, in words for whoever made them."""
    if not isinstance(request, dict) or not isinstance(response, dict):
        raise ValueError("`request` and `response` are no JSON objects")
    choices = _list(response.get("choices"), "response.choices")
    choice = choices[0] if choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    text = words_of(message) if isinstance(message, dict) else choice.get("text")
    prompt = request.get("prompt")
    if not isinstance(text, str) or not text:
        raise ValueError("`response` has no text")
    if "messages" not in request and not isinstance(prompt, str):
        raise ValueError("`request` has neither messages nor a prompt")
    told = template if isinstance(template := request.get("chat_template_kwargs"), dict) else {}
    return WrittenAnswer(
        category=category,
        prompt=_messages(request["messages"]) if "messages" in request else str(prompt),
        text=text,
        prompt_ids=_ids(choice.get("prompt_token_ids") or response.get("prompt_token_ids")),
        answer_ids=_ids(choice.get("token_ids")),
        thinking=thinks if isinstance(thinks := told.get("enable_thinking"), bool) else None,
        sampled=_sampled(request),
    )


def _chat(messages: Any, category: str) -> WrittenAnswer:
    known = _messages(messages)
    text = words_of(known[-1]) if known and known[-1].get("role") == "assistant" else None
    if not text or len(known) < 2:
        raise ValueError("its last message is not the assistant's, or has no text")
    return WrittenAnswer(category=category, prompt=known[:-1], text=text)


def _messages(given: Any) -> Messages:
    messages = _list(given, "messages")
    if not messages or not all(isinstance(message, dict) and words_of(message) is not None for message in messages):
        raise ValueError("messages: each has a role and a text")
    return tuple({"role": str(message.get("role")), "content": words_of(message)} for message in messages)


def _message(each: Any) -> dict[str, Any]:
    """A message of ShareGPT's form."""
    who = each.get("from") if isinstance(each, dict) else None
    for role, known in (("user", ASKS), ("assistant", ANSWERS), ("system", INSTRUCTS)):
        if who in known:
            return {"role": role, "content": each.get("value")}
    raise ValueError("conversations: each has `from` and `value`")


def _list(given: Any, name: str) -> list[Any]:
    if not isinstance(given, list):
        raise ValueError(f"{name} is no list")
    return given


def _ids(given: Any) -> tuple[int, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(type(each) is int and 0 <= each < 2**31 for each in given):
        raise ValueError("token ids are whole numbers from 0")
    return tuple(given)
