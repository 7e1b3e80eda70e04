"""The prompts of a case: the same list for every arm.

`line` and `sonnet` are built as LLMPerf builds them (`randomly_sample_sonnet_lines_prompt`): its preamble, then the
shuffled lines of its corpus, its random numbers in its order. For `line` the corpus is the case's text 500 times, as
the public sample makes it.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdecode.benchmark.tokens import TokenCounter
from specdecode.experiment.assets import assets_dir
from specdecode.experiment.model import PromptKind, TestCase, Workload
from specdecode.untrusted import Unreadable, json_lines, parse_json, read_text

CORPUS_LINES = 500
"""How often the public sample repeats a case's line (`yes "$PROMPT" | head -n 500`)."""


class BadPrompts(ValueError):
    """A case's prompts cannot be made; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    text: str
    input_tokens: int
    """Tokens asked for, or, of a prompt sent as it is, counted."""
    output_tokens: int | None = None
    """Overrides the workload's (JSON Lines)."""
    messages: tuple[dict[str, Any], ...] | None = None
    as_llmperf: bool = False
    """Chat requests carry LLMPerf's empty system message."""

    @property
    def identity(self) -> str:
        """What makes two prompts equal: their text, or their messages."""
        return self.text if self.messages is None else json.dumps(self.messages, sort_keys=True)


def prompts_of(case: TestCase, workload: Workload, counter: TokenCounter, *, count: int) -> list[Prompt]:
    """`count` prompts of a case. Raises BadPrompts."""
    match case.kind:
        case PromptKind.LINE:
            return _sampled([case.text + "\n"] * CORPUS_LINES, workload, counter, count)
        case PromptKind.SONNET:
            return _sampled(_sonnets(), workload, counter, count)
        case PromptKind.TEXT:
            return [Prompt(text=case.text, input_tokens=counter.count(case.text))] * count
        case PromptKind.JSONL:
            given = _from_jsonl(case, counter)
            return [given[index % len(given)] for index in range(count)]


def _sonnets() -> list[str]:
    return (assets_dir() / "prompts" / "sonnets.txt").read_text().splitlines(keepends=True)


def preamble(output_tokens: int) -> str:
    """What LLMPerf puts before its lines."""
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
    """LLMPerf's loop. It cuts the last line at as many *characters* as tokens are missing; with the model's own
    tokenizer the cut is at the token, so that the length is the one asked for.
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


def _from_jsonl(case: TestCase, counter: TokenCounter) -> list[Prompt]:
    """Prompts from the JSON Lines file that the case names: one of assets/prompts, or a path."""
    shipped = assets_dir() / "prompts" / case.text
    try:
        text = read_text(shipped if shipped.is_file() else Path(case.text))
    except (OSError, Unreadable) as error:
        raise BadPrompts(f"case {case.name}: cannot read prompts from {case.text!r}: {error}") from None
    prompts, problems = [], []
    for number, line in json_lines(text):
        try:
            prompts.append(_from_line(line, counter))
        except (ValueError, TypeError, AttributeError) as error:
            problems.append(f"line {number}: {error}")
    if problems:
        raise BadPrompts(f"case {case.name}: " + "; ".join(problems[:10]))
    if not prompts:
        raise BadPrompts(f"case {case.name}: no prompt in it; each line is {{'prompt': …}} or {{'messages': […]}}")
    return prompts


def _from_line(line: str, counter: TokenCounter) -> Prompt:
    entry = parse_json(line)
    if isinstance(entry, str):
        entry = {"prompt": entry}
    output_tokens = entry.get("max_tokens")
    if output_tokens is not None and (type(output_tokens) is not int or output_tokens < 1):
        raise ValueError("max_tokens is not a positive number")
    messages = entry.get("messages")
    if messages is not None:
        if not isinstance(messages, list) or not all(isinstance(m, dict) and "role" in m for m in messages):
            raise ValueError("messages is not a list of messages with a role")
        text = "\n".join(str(message.get("content", "")) for message in messages)
        return Prompt(
            text=text, input_tokens=counter.count(text), output_tokens=output_tokens, messages=tuple(messages)
        )
    prompt = entry.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise ValueError("no prompt and no messages")
    return Prompt(text=prompt, input_tokens=counter.count(prompt), output_tokens=output_tokens)
