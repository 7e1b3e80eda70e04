"""One record of a prompt file as a PromptRow. The keys say which format it is.

Own          {"id", "category", "turns": ["…"], "system"?, "output_tokens"?}
Spec-Bench   {"question_id", "category", "turns": ["…"], "reference"?}
             hemingkx/Spec-Bench, data/spec_bench/question.jsonl (FastChat's question files have the same form)
SPEED-Bench  the same, with "source", "src_id", "sub_category" …: the file that `prepare_data.py` of NVIDIA's
             Model-Optimizer (examples/specdec_bench, datasets/speed.py) makes, turned from Parquet into JSON Lines.
             A turn that still begins with its placeholder has no text yet.
ShareGPT     {"id"?, "conversations": [{"from": "human" | "gpt" | "system", "value": "…"}, …]}, mostly one JSON array
             (vllm, vllm/benchmarks/datasets.py, ShareGPTDataset, which skips those of fewer than two messages)
vLLM custom  {"prompt": "…", "output_tokens"?} (the same file, CustomDataset); `max_tokens` is read too
OpenAI       {"messages": [{"role", "content"}, …], "max_tokens"?}: the last one is the question, what is before it
             is sent as it is (API reference, chat completions)
"""

import json
from collections.abc import Callable
from typing import Any

from specdecode.prompts.categories import category_of
from specdecode.prompts.prompt_set import PromptRow, unsendable, words_of

PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"
"""How a turn of SPEED-Bench begins whose text must still be fetched (TURNS_PLACEHOLDER in datasets/speed.py)."""
ASKS, ANSWERS, INSTRUCTS = ("human", "user"), ("gpt", "chatgpt", "assistant", "bing", "bard"), ("system",)
"""Names that ShareGPT's files give the speakers."""


class NoQuestion(ValueError):
    """A conversation without a question, or with an empty one."""


def row_of(entry: Any, *, line: int) -> PromptRow:
    """The prompt of one record. Raises ValueError (NoQuestion is one), in words for its author."""
    if isinstance(entry, str):
        entry = {"prompt": entry}
    if not isinstance(entry, dict):
        raise ValueError("is no JSON object")
    for key, read in FORMATS.items():
        if key in entry:
            fields = {"id": f"line-{line}", **read(entry)}
            return PromptRow.model_validate_json(json.dumps(fields))
    raise ValueError(f"has none of the keys {', '.join(FORMATS)}")


def _turns(entry: dict[str, Any]) -> dict[str, Any]:
    if "question_id" not in entry and "src_id" not in entry:
        return entry  # our own format: it must be right as it is
    turns = entry["turns"]
    texts = turns if isinstance(turns, list) else []
    if any(isinstance(turn, str) and turn.startswith(PLACEHOLDER) for turn in texts):
        raise ValueError("SPEED-Bench without its texts: run its `prepare_data.py` first, then convert what it made")
    return _row(entry, turns, key="question_id")


def _conversations(entry: dict[str, Any]) -> dict[str, Any]:
    said = entry["conversations"]
    if not isinstance(said, list):
        raise ValueError("conversations is no list")
    turns, system = [], None
    for message in said:
        who, text = (message.get("from"), message.get("value")) if isinstance(message, dict) else (None, None)
        if not isinstance(text, str) or who not in (*ASKS, *ANSWERS, *INSTRUCTS):
            raise ValueError(f"conversations: each has `from` ({', '.join((*ASKS, *ANSWERS, *INSTRUCTS))}) and `value`")
        if who in ASKS:
            turns.append(text)
        elif who in INSTRUCTS:
            system = text
    if len(said) < 2 or not turns or not all(turn.strip() for turn in turns):
        raise NoQuestion("nobody asks anything, or a question is empty")
    row = _row(entry, turns)
    return row if system is None else {**row, "system": system}


def _messages(entry: dict[str, Any]) -> dict[str, Any]:
    messages = entry["messages"]
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ValueError("messages is no list of messages")
    for number, message in enumerate(messages, 1):
        if why := unsendable(message):
            raise ValueError(f"messages: message {number} {why}")
    if not messages or messages[-1]["role"] != "user":
        answered = bool(messages) and messages[-1]["role"] == "assistant"
        fix = ": drop the assistant's at the end, an arm writes its own" if answered else ""
        raise ValueError(f"messages: the last one must be the user's, it is what is asked{fix}")
    *before, last = messages
    row = _row(entry, [words_of(last) or ""])
    if before and before[0]["role"] == "system":
        row["system"], before = words_of(before[0]) or "", before[1:]
    return {**row, "history": before, **_output(entry)}


def _prompt(entry: dict[str, Any]) -> dict[str, Any]:
    prompt = entry["prompt"]
    if not isinstance(prompt, str):
        raise ValueError("prompt is no text")
    return {**_row(entry, [prompt]), **_output(entry)}


def _output(entry: dict[str, Any]) -> dict[str, Any]:
    """The longest answer by either of its names; pandas writes whole numbers as 10.0 where some are missing."""
    for key in ("output_tokens", "max_tokens"):
        value = entry.get(key)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 1:
                raise ValueError(f"{key} is not a positive whole number")
            return {"output_tokens": int(value)}
    return {}


def _row(entry: dict[str, Any], turns: Any, *, key: str = "id") -> dict[str, Any]:
    """A row of our own format, with the id of the entry if it has one below `key`."""
    row = {"category": category_of(entry.get("category")), "turns": turns}
    return row if entry.get(key) is None else {"id": str(entry[key]), **row}


FORMATS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "turns": _turns,
    "conversations": _conversations,
    "messages": _messages,
    "prompt": _prompt,
}
"""The key that only this format has -> its reader."""
