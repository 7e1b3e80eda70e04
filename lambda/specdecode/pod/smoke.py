"""Ask every server of a wave one real question: `python3 -m specdecode.pod.smoke --model M --arm base=http://… …`."""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from specdecode import names
from specdecode.exits import Exit
from specdecode.pod.program import Parser, PodError, add_arms, run, say
from specdecode.untrusted import parse_json

PROMPT = "Count from 1 to 10: 1, 2, 3,"
MAX_TOKENS = 8
TIMEOUT_S = 120.0
MAX_ANSWER_BYTES = 2**20
REACHABLE_WITHIN_S = 60.0
"""A Service routes to a pod a moment after it became ready."""


def main(arguments: Sequence[str]) -> None:
    """Ask each arm; end with Exit.BAD_ANSWER naming every arm that failed."""
    parser = Parser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--endpoint", choices=("completions", "chat"), required=True)
    add_arms(parser)
    options = parser.parse_args(arguments)
    models = dict(pair.split("=", 1) for pair in options.arm_model)
    failed = []
    for arm in options.arm:
        name, _, url = arm.partition("=")
        try:
            key = names.api_key(name, os.environ)
            text, tokens = ask(url, model=models.get(name, options.model), endpoint=options.endpoint, api_key=key)
            say(f"{name} answers: {tokens} tokens, {text[:60]!r}")
        except ValueError as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise PodError(Exit.BAD_ANSWER, "; ".join(failed))


def ask(url: str, *, model: str, endpoint: str, api_key: str | None = None) -> tuple[str, int]:
    """Text and completion tokens of one greedy answer; ValueError where it is not one."""
    body: dict[str, Any] = {"model": model, "max_tokens": MAX_TOKENS, "temperature": 0}
    if endpoint == "chat":
        path, body["messages"] = "/v1/chat/completions", [{"role": "user", "content": PROMPT}]
    else:
        path, body["prompt"] = "/v1/completions", PROMPT
    answer = _post(url.rstrip("/").removesuffix("/v1") + path, body, api_key)
    try:
        choice = answer["choices"][0]
        message = choice.get("message") or {}
        text = str(message.get("content") or message.get("reasoning_content") or choice.get("text") or "")
        tokens = int(answer["usage"]["completion_tokens"])
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"the answer lacks {error}") from error
    if not text or tokens < 1:
        raise ValueError(f"an empty answer ({tokens} tokens)")
    return text, tokens


def _post(url: str, body: dict[str, Any], api_key: str | None) -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)  # noqa: S310 (an arm's)
    give_up = time.monotonic() + REACHABLE_WITHIN_S
    while True:
        try:
            with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
                return parse_json(answer.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            text = error.read(300).decode("utf-8", "replace")
            raise ValueError(f"HTTP {error.code}: {text.replace(api_key, '…') if api_key else text}") from error
        except (urllib.error.URLError, OSError) as error:
            if isinstance(getattr(error, "reason", error), ssl.SSLError) or time.monotonic() > give_up:
                raise ValueError(f"not reachable: {error}") from error
            time.sleep(1)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A server that sends the request (and the key in it) elsewhere is not the arm that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


if __name__ == "__main__":
    run(main)
