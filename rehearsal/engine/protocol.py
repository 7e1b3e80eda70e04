"""OpenAI's completion and chat requests: the parameters that the engine reads, and those that it refuses."""

from dataclasses import dataclass
from typing import Any, Literal

from rehearsal.engine.errors import RequestRefused
from rehearsal.engine.sequence import Sampling
from rehearsal.engine.tokenizer import Tokenizer

Kind = Literal["completions", "chat"]

COMPLETION_MAX_TOKENS = 16
"""OpenAI's default of /v1/completions; chat may fill the window."""

_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "temperature": (None, 0),
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "logprobs": (None, False, 0),
    "top_logprobs": (None, 0),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "logit_bias": (None, {}),
    "suffix": (None, ""),
    "tools": (None, []),
    "response_format": (None, {"type": "text"}),
}
"""Parameters that change the answer and that this engine does not implement, with the values that change nothing."""


@dataclass(frozen=True, kw_only=True)
class GenerateRequest:
    """A request for tokens that was validated, of either endpoint."""

    kind: Kind
    prompt: list[int]
    pending: str
    """End of the prompt that was not encoded. It is removed from the beginning of the answer's text."""
    sampling: Sampling
    stream: bool
    include_usage: bool
    continuous_usage: bool
    prompt_logprobs: int | None
    """How many of the most probable tokens to tell at each place of the prompt. None: no place is told."""


def parse_request(kind: Kind, body: Any, *, model: str, tokenizer: Tokenizer, bos: int, window: int) -> GenerateRequest:
    """Validate the body of a POST. Raises RequestRefused that names every problem of its parameters."""
    if not isinstance(body, dict):
        raise RequestRefused("The request body must be a JSON object.")
    _check_model(body, model)
    reader = _Reader(body)
    prompt, pending = _chat_prompt(reader) if kind == "chat" else _completion_prompt(reader)
    limit_name = "max_completion_tokens" if kind == "chat" and "max_completion_tokens" in body else "max_tokens"
    max_tokens = reader.integer(limit_name, minimum=1)
    min_tokens = reader.integer("min_tokens", minimum=0) or 0
    ignore_eos = reader.boolean("ignore_eos")
    stream = reader.boolean("stream")
    prompt_logprobs = reader.integer("prompt_logprobs", minimum=0)
    if stream and prompt_logprobs is not None:
        reader.problem("prompt_logprobs", "cannot be set with stream=true")
    stop = reader.stop()
    options = reader.stream_options(stream)
    reader.integer("seed", minimum=None)
    reader.refuse_unsupported()
    reader.finish()
    if isinstance(prompt, str):
        prompt, pending = tokenizer.encode_prompt(prompt)
        prompt = [bos, *prompt]
    _check_ids(prompt, len(tokenizer))
    room = window - len(prompt)
    if max_tokens is None:
        max_tokens = COMPLETION_MAX_TOKENS if kind == "completions" else max(room, 1)
    if max_tokens > room:
        raise RequestRefused(
            f"This model's maximum context length is {window} tokens. However, you requested "
            f"{len(prompt) + max_tokens} tokens ({len(prompt)} in the prompt, {max_tokens} in the completion). "
            "Please reduce the length of the prompt or the completion."
        )
    if min_tokens > max_tokens:
        raise RequestRefused(
            f"min_tokens ({min_tokens}) must not exceed max_tokens ({max_tokens}).", param="min_tokens"
        )
    sampling = Sampling(max_tokens=max_tokens, min_tokens=min_tokens, ignore_eos=ignore_eos, stop=stop)
    return GenerateRequest(
        kind=kind,
        prompt=prompt,
        pending=pending,
        sampling=sampling,
        stream=stream,
        include_usage=options.get("include_usage", False),
        continuous_usage=options.get("continuous_usage_stats", False),
        prompt_logprobs=prompt_logprobs,
    )


def parse_tokenize(body: Any, *, model: str, tokenizer: Tokenizer, bos: int) -> list[int]:
    """The ids that `/tokenize` answers with: of a `prompt`, or of a chat's `messages`. Raises RequestRefused."""
    if not isinstance(body, dict):
        raise RequestRefused("The request body must be a JSON object.")
    _check_model(body, model)
    reader = _Reader(body)
    chat = "messages" in body
    special = chat or body.get("add_special_tokens") is not False
    prompt, _ = _chat_prompt(reader) if chat else _completion_prompt(reader)
    reader.finish()
    if not isinstance(prompt, str):
        raise RequestRefused("prompt: must be a string.", param="prompt")
    return [bos, *tokenizer.encode_prompt(prompt)[0]] if special else tokenizer.encode(prompt)


def _check_model(body: dict[str, Any], model: str) -> None:
    if body.get("model", model) != model:
        message = f"The model `{body['model']}` does not exist. This server serves `{model}`."
        raise RequestRefused(message, status=404, kind="NotFoundError", param="model")


class _Reader:
    """Reads typed values of a body and collects their problems."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self._problems: list[tuple[str, str]] = []

    def problem(self, name: str, text: str) -> None:
        self._problems.append((name, text))

    def finish(self) -> None:
        if self._problems:
            message = " ".join(f"{name}: {text}." for name, text in self._problems)
            raise RequestRefused(message, param=self._problems[0][0])

    def integer(self, name: str, *, minimum: int | None) -> int | None:
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or (minimum is not None and value < minimum):
            self.problem(name, "must be an integer" + ("" if minimum is None else f" of at least {minimum}"))
            return None
        return value

    def boolean(self, name: str) -> bool:
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            self.problem(name, "must be true or false")
        return value is True

    def stop(self) -> tuple[str, ...]:
        value = self.body.get("stop") or []
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
            self.problem("stop", "must be a string or a list of strings, none of them empty")
            return ()
        return tuple(items)

    def stream_options(self, stream: bool) -> dict[str, bool]:
        options = self.body.get("stream_options")
        if options is None:
            return {}
        if not stream:
            self.problem("stream_options", "can be set only with stream=true")
        if not isinstance(options, dict) or not all(isinstance(value, bool) for value in options.values()):
            self.problem("stream_options", "must be an object of true or false values")
            return {}
        return options

    def refuse_unsupported(self) -> None:
        for name, harmless in _UNSUPPORTED.items():
            if name in self.body and self.body[name] not in harmless:
                allowed = " or ".join(repr(value) for value in harmless if value is not None)
                self.problem(name, f"{self.body[name]!r} is not supported, only {allowed} is")


def _completion_prompt(reader: _Reader) -> tuple[str | list[int], str]:
    prompt = reader.body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(type(item) is int for item in prompt):
        return prompt, ""
    if not isinstance(prompt, str):
        reader.problem("prompt", "must be a string or a list of token ids (one prompt a request)")
        return "", ""
    if not prompt:
        reader.problem("prompt", "must not be empty")
    return prompt, ""


def _chat_prompt(reader: _Reader) -> tuple[str, str]:
    """The chat template: the messages' texts in order, each ended by a line break; roles are not written."""
    messages = reader.body.get("messages")
    if not isinstance(messages, list) or not messages:
        reader.problem("messages", "must be a list of at least one message")
        return "", ""
    texts = [_message_text(message) for message in messages]
    if any(text is None for text in texts):
        reader.problem("messages", "each must have a role and a content that is a string or a list of text parts")
        return "", ""
    return "".join(text if text.endswith("\n") else text + "\n" for text in texts if text), ""


def _message_text(message: Any) -> str | None:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return None
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        strings = [text for text in texts if isinstance(text, str)]
        return "".join(strings) if len(strings) == len(content) else None
    return content if isinstance(content, str) else None


def _check_ids(prompt: list[int], vocabulary: int) -> None:
    if not all(0 <= token < vocabulary for token in prompt):
        raise RequestRefused(f"prompt: token ids must be from 0 to {vocabulary - 1}.", param="prompt")
