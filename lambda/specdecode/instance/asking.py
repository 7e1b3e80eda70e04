"""One question to a server that runs here, its answer as it comes."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from specdecode.benchmark.sse import SseParser
from specdecode.pod.smoke import OPENER
from specdecode.untrusted import parse_json

TIMEOUT_S = 600.0
_PIECE = 1 << 14


def ask(url: str, asked: Mapping[str, Any], *, api_key: str, show: Callable[[str], None]) -> str:
    """Ask, and `show` each piece of the answer when it is here. `asked`: the body of a request to OpenAI's API. Returns
    how the answer came, in words; tokens are counted by the server. Raises ValueError for what is no answer.
    """
    request = urllib.request.Request(  # noqa: S310 (a server that this command started)
        f"{url}/v1/{'chat/' if 'messages' in asked else ''}completions",
        data=json.dumps({**asked, "stream": True, "stream_options": {"include_usage": True}}).encode(),
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
    first = first or ended
    rate = (tokens - 1) / (ended - first) if tokens > 1 else 0
    speed = f", then {rate:.1f} tokens/s" if rate else ""
    return f"{tokens} tokens in {ended - began:.2f} s: the first after {1000 * (first - began):.0f} ms{speed}"
