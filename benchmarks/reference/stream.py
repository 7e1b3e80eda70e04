"""An answer of the reference server, and its chunks as vLLM writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

MODEL = "reference"


@dataclass
class Stream:
    """One request and its answer."""

    prompt_sha256: str
    arrived: float
    tokens: list[int]
    due: list[float]
    chat: bool
    running_usage: bool
    usage: bool
    sent: list[float] = field(default_factory=list)
    counted: int = 0


def kind(stream: Stream) -> str:
    return "chat.completion.chunk" if stream.chat else "text_completion"


def used(stream: Stream) -> dict:
    return {"prompt_tokens": 20, "completion_tokens": stream.counted, "total_tokens": 20 + stream.counted}


def event(stream: Stream, text: str, *, last: bool) -> bytes:
    """One chunk as vLLM writes it, in HTTP's chunked framing."""
    finish = '"length"' if last else "null"
    if stream.chat:
        choice = f'{{"index":0,"delta":{{"content":"{text}"}},"logprobs":null,"finish_reason":{finish}}}'
    else:
        choice = f'{{"index":0,"text":"{text}","logprobs":null,"finish_reason":{finish}}}'
    usage = f',"usage":{json.dumps(used(stream))}' if stream.running_usage else ""
    body = (
        f'data: {{"id":"cmpl-0123456789abcdef","object":"{kind(stream)}","created":1795000000,"model":"{MODEL}",'
        f'"choices":[{choice}]{usage}}}\n\n'
    ).encode()
    return b"%x\r\n%s\r\n" % (len(body), body)


def ending(stream: Stream) -> bytes:
    """What follows the last chunk: the usage if it was asked for, and the end of the answer."""
    tail = b"data: [DONE]\n\n"
    if stream.usage:
        final = {
            "id": "r",
            "object": kind(stream),
            "created": 1,
            "model": MODEL,
            "choices": [],
            "usage": used(stream),
        }
        tail = b"data: " + json.dumps(final).encode() + b"\n\n" + tail
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(tail), tail)
