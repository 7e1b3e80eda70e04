"""Send every server of a wave one real request, and the longest prompt of the workload: `python3 -m
specdecode.pod.smoke --model M --arm base=http://… …`.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from specdecode.exit_codes import Exit
from specdecode.pod.program import Parser, PodArm, PodError, add_arms, arms_of, run, say
from specdecode.untrusted import Unreadable, parse_json

Body = dict[str, Any]

PROMPT = "Count from 1 to 10: 1, 2, 3,"
MAX_TOKENS = 8
MARK = "Smoke: "
TIMEOUT_S = 120.0
MAX_ANSWER_BYTES = 2**20
REACHABLE_WITHIN_S = 60.0
"""Seconds for which an unreachable server is tried again. A Service routes to a pod a moment after the pod became
ready.
"""


def main(arguments: Sequence[str]) -> None:
    """Ask each arm. End with Exit.BAD_ANSWER and the name of every arm that failed."""
    parser = Parser(description=__doc__)
    parser.add_argument("--endpoint", choices=("completions", "chat"), required=True)
    parser.add_argument("--longest", type=Path, help="the longest prompt of the workload, JSON")
    add_arms(parser)
    options = parser.parse_args(arguments)
    longest = _longest(options.longest) if options.longest else None
    failed = []
    for arm in arms_of(options).values():
        try:
            text, tokens, _ = ask(arm, options.endpoint)
            say(f"{arm.name} answers: {tokens} tokens, {text[:60]!r}")
            if longest is not None:
                counted = send(longest, arm, options.endpoint)
                say(f"{arm.name} takes the longest prompt, {longest.name}: {counted} tokens")
        except ValueError as error:
            failed.append(f"{arm.name}: {error}")
    if failed:
        raise PodError(Exit.BAD_ANSWER, "; ".join(failed))


class Longest(NamedTuple):
    """A `specdecode.experiment.prompt_lengths.LongestPrompt`, read without the library that it is written with."""

    name: str
    messages: list[dict[str, Any]]
    text: str
    answer: int
    room: int | None
    thinking: bool | None


class SmokeAnswer(NamedTuple):
    """A server's answer, and its count of tokens."""

    text: str
    tokens: int
    prompt_tokens: int | None


def ask(arm: PodArm, endpoint: str, body: Body | None = None) -> SmokeAnswer:
    """One greedy answer to PROMPT, or to the request in `body`. Raises ValueError for anything that is no answer."""
    body = asking(PROMPT, endpoint) if body is None else body
    body = {"max_tokens": MAX_TOKENS, "temperature": 0, **body}
    answer = _answer(request_to(arm, endpoint, body), arm.api_key)
    try:
        choice = answer["choices"][0]
        message = choice.get("message") or {}
        text = str(message.get("content") or message.get("reasoning_content") or choice.get("text") or "")
        tokens = int(answer["usage"]["completion_tokens"])
        sent = answer["usage"].get("prompt_tokens")
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"the answer lacks {error}") from error
    any_text = body["max_tokens"] == 1 or body.get("ignore_eos")  # half a character, or nothing but ends of text
    if tokens < 1 or not (text or any_text):
        raise ValueError(f"an empty answer ({tokens} tokens)")
    return SmokeAnswer(text, tokens, sent if isinstance(sent, int) else None)


def send(longest: Longest, arm: PodArm, endpoint: str) -> int | None:
    """Tokens of the longest prompt by the server's count. Raises ValueError if the server does not take it, alone or
    with its answer.

    A word before the prompt keeps it out of the prefix cache of what is measured later.
    """
    mark = MARK if longest.answer > len(MARK) else ""
    if endpoint == "chat":
        first, *others = longest.messages
        content = first.get("content")
        marked = mark + content if isinstance(content, str) else content
        body: Body = {"messages": [{**first, "content": marked}, *others]}
        if longest.thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": longest.thinking}
    else:
        body = {"prompt": mark + longest.text}
    try:
        tokens = ask(arm, endpoint, {**body, "max_tokens": 1}).prompt_tokens
    except ValueError as error:
        raise ValueError(f"it does not take the longest prompt, {longest.name}: {error}") from error
    fewest = (tokens or 0) - len(mark)  # a token holds a byte at least
    if longest.room is not None and fewest + longest.answer > longest.room:
        raise ValueError(
            f"the prompt {longest.name} has at least {fewest} tokens, with {longest.answer} for the answer "
            f"{fewest + longest.answer}: max_model_len is {longest.room}"
        )
    return tokens


def _longest(path: Path) -> Longest:
    try:
        return Longest(**parse_json(path.read_bytes()))
    except (OSError, Unreadable, TypeError) as error:
        raise PodError(Exit.BAD_SPECIFICATION, f"{path}: {error}") from None


def asking(prompt: str, endpoint: str) -> Body:
    """A prompt in a request of the chat or the completions endpoint."""
    return {"messages": [{"role": "user", "content": prompt}]} if endpoint == "chat" else {"prompt": prompt}


def request_to(arm: PodArm, endpoint: str, body: Body) -> urllib.request.Request:
    """A POST of `body` to an arm, with or without `/v1` in its URL."""
    at = arm.url.rstrip("/").removesuffix("/v1") + ("/v1/chat/completions" if endpoint == "chat" else "/v1/completions")
    headers = {"Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {arm.api_key}"} if arm.api_key else {}
    data = json.dumps({"model": arm.model, **body}).encode()
    return urllib.request.Request(at, data=data, headers=headers)  # noqa: S310 (an arm's)


def _answer(request: urllib.request.Request, api_key: str | None) -> Any:
    give_up = time.monotonic() + REACHABLE_WITHIN_S
    while True:
        try:
            with OPENER.open(request, timeout=TIMEOUT_S) as answer:
                return parse_json(answer.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            text = error.read(300).decode("utf-8", "replace")
            raise ValueError(f"HTTP {error.code}: {text.replace(api_key, '…') if api_key else text}") from error
        except (OSError, http.client.HTTPException) as error:  # the latter: cut within an answer
            if isinstance(getattr(error, "reason", error), ssl.SSLError) or time.monotonic() > give_up:
                raise ValueError(f"not reachable: {error}") from error
            time.sleep(1)


def healthy(url: str) -> bool:
    """Whether it answers with 200, now."""
    with suppress(OSError, http.client.HTTPException), OPENER.open(url, timeout=5) as answer:
        return bool(answer.status == 200)
    return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a server that sends the request (and its key) elsewhere is not the arm that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


OPENER = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
"""No proxy of the environment gets the request, or answers for the server."""


if __name__ == "__main__":
    run(main)
