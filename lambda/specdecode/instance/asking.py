"""One question to a server that runs here, its answer as it comes."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specdecode.benchmark.sse import SseParser
from specdecode.pod.smoke import OPENER
from specdecode.untrusted import parse_json

TIMEOUT_S = 600.0
_PIECE = 1 << 14


@dataclass(frozen=True, kw_only=True)
class PromptToAsk:
    """What is asked."""

    prompt: str
    endpoint: str
    """`chat` or `completions`."""
    model: str
    max_tokens: int
    temperature: float


@dataclass(frozen=True, kw_only=True)
class AnswerTimes:
    """How the answer came."""

    tokens: int
    """By the server's count."""
    first_s: float
    """Seconds to the first text."""
    whole_s: float

    @property
    def words(self) -> str:
        rate = (self.tokens - 1) / (self.whole_s - self.first_s) if self.tokens > 1 else 0
        speed = f", then {rate:.1f} tokens/s" if rate else ""
        return f"{self.tokens} tokens in {self.whole_s:.2f} s: the first after {1000 * self.first_s:.0f} ms{speed}"


def ask(url: str, question: PromptToAsk, *, api_key: str, show: Callable[[str], None]) -> AnswerTimes:
    """Ask, and `show` each piece of the answer when it is here. Raises ValueError for what is no answer."""
    chat = question.endpoint == "chat"
    asked: Any = {"messages": [{"role": "user", "content": question.prompt}]} if chat else {"prompt": question.prompt}
    body = asked | {
        "model": question.model,
        "max_tokens": question.max_tokens,
        "temperature": question.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    request = urllib.request.Request(  # noqa: S310 (a server that this command started)
        f"{url}/v1/{'chat/' if chat else ''}completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {api_key}"},
    )
    events, began, first, tokens = SseParser(), time.monotonic(), None, 0
    try:
        with OPENER.open(request, timeout=TIMEOUT_S) as answer:
            while data := answer.read1(_PIECE):
                for event in events.feed(data):
                    if event == b"[DONE]":
                        continue
                    read = parse_json(event)
                    tokens = (read.get("usage") or {}).get("completion_tokens", tokens)
                    for choice in read.get("choices", ()):
                        if text := choice.get("text") or (choice.get("delta") or {}).get("content"):
                            first = first or time.monotonic()
                            show(text)
    except urllib.error.HTTPError as error:
        raise ValueError(f"HTTP {error.code}: {error.read(300).decode('utf-8', 'replace')}") from None
    except (OSError, AttributeError, TypeError) as error:
        raise ValueError(f"no answer: {error}") from None
    ended = time.monotonic()
    return AnswerTimes(tokens=tokens, first_s=(first or ended) - began, whole_s=ended - began)
