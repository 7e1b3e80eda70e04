"""Reads a streamed completion, one event at a time: text, token counts, why it ended."""

import json
from typing import Any, TypeGuard

from pydantic_core import from_json

from specdecode.escape import clip, plain
from specdecode.measures.plausibility import TOKENS_BESIDE_TEXT
from specdecode.prompts.prompt_set import LONGEST_ANSWER
from specdecode.records import MOST_POSITIONS, Drafted, ErrorKind
from specdecode.records.record import MOST_COUNT
from specdecode.untrusted import Unreadable, parse_json

DONE = b"[DONE]"
_SHOWN = 200
_BROKEN_OFF = ("error", "abort", "cancelled")
"""Reasons for which an answer ended that is not whole (vLLM 0.32.0, vllm/v1/engine/__init__.py, FinishReason)."""
_LARGEST = 2**53
"""Largest count of tokens that is accepted: other JSON readers hold whole numbers up to here."""
MAX_CHARACTERS = 2**21
MAX_CHUNKS = LONGEST_ANSWER
"""Longest answer that is kept: a chunk for each token that can be asked for, eight characters each. Its record is a
line of half the bytes that a reader takes (`untrusted.MAX_FILE_BYTES`) at most, also if each character is escaped to
six. Of a longer answer nothing is kept: a run may have many of them.
"""


class AnswerError(ValueError):
    """The answer is no completion, or is the server's own error."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


TimedText = tuple[float, int, int | None, int]
"""A records.Chunk (time, characters, tokens, of them reasoning characters) while the stream runs: a plain tuple, which
costs a tenth of the model and, unlike a named one, is nothing to the garbage collector."""


class Answer:
    """Events of one streamed completion (chat or plain), taken in order."""

    __slots__ = (
        "_characters",
        "_counted",
        "_finished",
        "_running",
        "cached_tokens",
        "chunks",
        "completion_tokens",
        "drafted",
        "events",
        "finish_reason",
        "parts",
        "prompt_tokens",
        "reasoning_tokens",
        "usage_problem",
    )

    def __init__(self) -> None:
        self.chunks: list[TimedText] = []
        self.parts: list[str] = []
        self.events = 0
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self.drafted: Drafted | None = None
        self.finish_reason: str | None = None
        self.usage_problem: str | None = "the server sent no usage"
        self._characters = 0
        self._counted = 0
        self._finished = False
        self._running: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the server said why the answer ended: one that it does not say it of may be cut off."""
        return self.finish_reason is not None

    @property
    def finished(self) -> bool:
        """Whether the stream ended with `[DONE]`, so that nothing more comes."""
        return self._finished

    def take(self, event: bytes, at_s: float) -> None:
        """Take one event that arrived `at_s` after the request was sent. Raises AnswerError."""
        if event == DONE:
            self._finished = True
            return
        message = _parsed(event)
        error = message.get("error")
        if error or message.get("object") == "error":
            raise AnswerError(ErrorKind.SERVER, _error_text(error or message))
        usage = message.get("usage")
        running = self._take_usage(usage) if usage is not None else None
        if metrics := message.get("metrics"):
            self.drafted = drafted_of(metrics)
        choices = message.get("choices")
        if not isinstance(choices, list):
            raise AnswerError(ErrorKind.PROTOCOL, f"an event without choices: {event[:_SHOWN]!r}")
        if not choices:
            return
        self.events += 1
        choice = choices[0]
        try:
            delta = choice.get("delta")
            if delta is None:
                reasoning, content = "", choice.get("text") or ""
            else:
                reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
                content = delta.get("content") or ""
            finish_reason = choice.get("finish_reason")
        except AttributeError:
            raise AnswerError(ErrorKind.PROTOCOL, f"not a completion's event: {event[:_SHOWN]!r}") from None
        if not isinstance(reasoning, str) or not isinstance(content, str):
            raise AnswerError(ErrorKind.PROTOCOL, f"not a completion's event: {event[:_SHOWN]!r}")
        if finish_reason:
            self.finish_reason = clip(plain(str(finish_reason)), _SHOWN)
        text = reasoning + content
        if running is not None or text:
            self._running = running
        if text:
            self._add(at_s, text, len(reasoning), running)
        if finish_reason in _BROKEN_OFF:
            raise AnswerError(ErrorKind.SERVER, f"the server ended the answer: {finish_reason}")

    def _add(self, at_s: float, text: str, reasoning_chars: int, running: int | None) -> None:
        tokens = None
        if running is not None:
            tokens = max(running - self._counted, 0)
            self._counted = running
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()  # a lone surrogate escape is valid JSON and no text
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS or len(self.chunks) >= MAX_CHUNKS:
            self.parts.clear()
            self.chunks.clear()
            raise AnswerError(
                ErrorKind.PROTOCOL,
                f"an answer of more than {MAX_CHARACTERS:,} characters or {MAX_CHUNKS:,} chunks: it never ends, and "
                "nothing of it is kept",
            )
        self.parts.append(text)
        self.chunks.append((at_s, len(text), tokens, reasoning_chars))

    def _take_usage(self, usage: Any) -> int | None:
        """Keep the server's counts. Returns the running number of completion tokens."""
        try:
            prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
        except AttributeError:
            prompt, completion = None, None
        if not _is_count(prompt) or not _is_count(completion):
            self.prompt_tokens = self.completion_tokens = None
            self.usage_problem = f"the server's usage makes no sense: {json.dumps(usage)[:_SHOWN]}"
            return None
        self.prompt_tokens, self.completion_tokens, self.usage_problem = prompt, completion, None
        if details := usage.get("prompt_tokens_details"):
            self.cached_tokens = _part(details, "cached_tokens", prompt)
        if details := usage.get("completion_tokens_details"):
            self.reasoning_tokens = _part(details, "reasoning_tokens", completion)
        return completion

    def check_usage(self, requested_tokens: int, *, exact: bool = False) -> None:
        """Drop counts that contradict the stream or each other, also those of the chunks.

        The whole count may not be smaller than the number of chunks with text, nor larger than what was asked for.
        The chunks together may not count more than that. The last running count is the whole one (vLLM
        0.32.0, vllm/entrypoints/openai/chat_completion/serving.py), but for what ends an answer. A smaller one than the
        chunks with text is none: some servers send 0 until the end. An answer that goes on to an `exact` length may
        have no text at its end, and some servers send nothing for it (SGLang, entrypoints/openai/serving_chat.py).
        """
        count, fewest = self.completion_tokens, len(self.chunks)
        running = self._running if self._running is None or self._running >= fewest else None
        came = ""
        if count is not None and count < fewest:
            came = f"{fewest} chunks with text came"
        elif count is not None and count > requested_tokens:
            came = f"at most {requested_tokens} were asked for"
        elif exact and count == requested_tokens:
            pass
        elif count is not None and running is not None and count > running + TOKENS_BESIDE_TEXT:
            came = f"its running counts end with {running}"
        if came:
            self.usage_problem = f"usage counts {count} tokens, but {came}"
            self.prompt_tokens = self.completion_tokens = None
        believed = self.completion_tokens or 0
        if self._running != running or sum(tokens or 0 for _, _, tokens, _ in self.chunks) > believed:
            self.chunks = [(at_s, chars, None, reasoning) for at_s, chars, _, reasoning in self.chunks]


def _part(details: Any, name: str, whole: int) -> int | None:
    count = details.get(name) if isinstance(details, dict) else None
    return count if _is_count(count) and count <= whole else None


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _LARGEST


def _parsed(event: bytes) -> dict[str, Any]:
    try:
        message = from_json(event, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        message = _parsed_by_the_standard_library(event)
    if not isinstance(message, dict):
        raise AnswerError(ErrorKind.PROTOCOL, f"an event is not a JSON object: {event[:_SHOWN]!r}")
    return message


def _parsed_by_the_standard_library(event: bytes) -> Any:
    """For what pydantic's parser refuses and JSON allows (half a surrogate pair), and for messages."""
    try:
        return json.loads(event.decode())
    except UnicodeDecodeError:
        raise AnswerError(ErrorKind.PROTOCOL, f"an event is not UTF-8: {event[:_SHOWN]!r}") from None
    except (ValueError, RecursionError):
        raise AnswerError(ErrorKind.PROTOCOL, f"an event is not JSON: {event[:_SHOWN]!r}") from None


def _error_text(error: Any) -> str:
    text = error.get("message") or error.get("detail") if isinstance(error, dict) else None
    return str(text or error)[:500]


def error_in_body(body: bytes) -> str:
    """The message of an error answer, as OpenAI-compatible servers write it, else the start of the body."""
    try:
        message = parse_json(body)
    except Unreadable:
        return body[:500].decode("utf-8", "replace").strip()
    if isinstance(message, dict):
        return _error_text(message.get("error") or message)
    return str(message)[:500]


def drafted_of(metrics: Any) -> Drafted | None:
    """From the `metrics` object of vLLM's usage chunk. None if there is none, or its figures contradict themselves.

    `acceptance_histogram[j]` is the number of steps that accepted j drafts: the draft at position i was accepted in the
    steps from j = i on (vLLM 0.32.0, vllm/entrypoints/generate/base/protocol.py, SpeculativeDecodingMetrics). The field
    is called experimental there: of another shape it is passed over, and the counters of /metrics remain.
    """
    given = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if not isinstance(given, dict):
        return None
    histogram, drafts = given.get("acceptance_histogram"), given.get("num_draft_tokens")
    if not isinstance(histogram, list) or not 1 <= len(histogram) <= MOST_POSITIONS + 1:
        return None
    if not _is_count(drafts) or not all(_is_count(count) for count in histogram):
        return None
    steps = sum(histogram)
    accepted = sum(at * count for at, count in enumerate(histogram))
    if given.get("num_spec_steps", steps) != steps or given.get("num_accepted_draft_tokens", accepted) != accepted:
        return None
    if not accepted <= drafts <= steps * (len(histogram) - 1) or max(steps, drafts) > MOST_COUNT:
        return None
    positions = tuple(sum(histogram[at:]) for at in range(1, len(histogram)))
    return Drafted(drafts=steps, draft_tokens=drafts, accepted_tokens=accepted, accepted_per_position=positions)
