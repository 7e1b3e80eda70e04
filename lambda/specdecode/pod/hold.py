"""Answer questions to the arms that a run holds: `python3 -m specdecode.pod.hold --prefix asks/<run id>/ --arm
base=http://… …`.

Questions and answers are objects of the bucket, the way that the command line has anyway. A question is deleted when it
is taken. Neither it nor its answer is in the log.
"""

from __future__ import annotations

import http.client
import signal
import threading
import time
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from pydantic import ValidationError

from specdecode import s3_keys
from specdecode.benchmark.answer import Answer, AnswerError, error_in_body
from specdecode.escape import clip, line
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import Parser, PodArm, PodError, add_arms, arms_of, run, say
from specdecode.pod.smoke import MAX_ANSWER_BYTES, OPENER, TIMEOUT_S, Body, asking, request_to
from specdecode.records import ErrorKind
from specdecode.records.asks import MOST_BYTES, AskPart, AskQuestion

POLL_S = 1.0
"""Seconds between two looks for questions: half an hour of them costs a cent (S3, LIST requests)."""
EVERY_S = 0.5
"""Least seconds between two parts of an answer."""
AT_ONCE = 4
"""Questions that are asked at a time."""


def main(arguments: Sequence[str]) -> None:
    """Answer until somebody ends it, or the pod is stopped."""
    parser = Parser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--endpoint", choices=("completions", "chat"), required=True)
    add_arms(parser)
    options = parser.parse_args(arguments)
    arms, bucket, stopped = arms_of(options), Bucket(options.bucket), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    say(f"{', '.join(arms)} can be asked")
    serve(bucket, options.prefix, arms, endpoint=options.endpoint, stopped=stopped)


def serve(bucket: Bucket, prefix: str, arms: Mapping[str, PodArm], *, endpoint: str, stopped: threading.Event) -> None:
    """Take questions below `prefix` until there is the key `end`, or `stopped` is set. Then forget the others."""
    taken = set[str]()

    def answer(key: str) -> None:
        """Ask the arm, and store what it says in parts. The last one says it if that fails, and so does the log."""
        began, parts = time.monotonic(), 0

        def keep(part: AskPart) -> None:
            nonlocal parts
            bucket.write(s3_keys.part_key(key.removesuffix(s3_keys.QUESTION), parts), part.model_dump_json())
            parts += 1

        try:
            document = bucket.start_of(key, MOST_BYTES + 1)
            bucket.delete([key])
            for part in _parts(document, arms, endpoint=endpoint, stopped=stopped):
                keep(part)
            say(f"answered in {parts} parts and {time.monotonic() - began:.1f} s")
        except Exception as error:  # the pool would keep it to itself
            why = str(error) if isinstance(error, PodError) else type(error).__name__  # others' words may tell the text
            say(f"a question has no answer: {why}")
            with suppress(PodError):
                keep(AskPart(done=True, error=clip(line(why), 500)))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        while not stopped.wait(POLL_S):
            there = bucket.listing(prefix)
            if s3_keys.END in there:
                say("somebody has ended it")
                break
            for name in there:
                if name.endswith(f"/{s3_keys.QUESTION}") and name not in taken:
                    taken.add(name)
                    pool.submit(answer, prefix + name)
        stopped.set()
    left = [prefix + name for name in bucket.listing(prefix) if name.endswith((s3_keys.QUESTION, s3_keys.END))]
    bucket.delete(left)


def _parts(
    document: bytes, arms: Mapping[str, PodArm], *, endpoint: str, stopped: threading.Event
) -> Iterator[AskPart]:
    """The answer as it comes; the last part is done."""
    try:
        question = AskQuestion.model_validate_json(document[:MOST_BYTES])
    except ValidationError:
        yield AskPart(done=True, error=f"no question: it must be one of at most {MOST_BYTES // 1024} KiB")
        return
    if (arm := arms.get(question.arm)) is None:
        yield AskPart(done=True, error=f"no arm {question.arm} is held, but {', '.join(arms)}")
        return
    answer, given, last = Answer(), 0, float("-inf")
    body = question.model_dump(include={"max_tokens", "temperature"}) | asking(question.prompt, endpoint)
    try:
        for answer in streamed(arm, endpoint, body):
            if answer.finished or stopped.is_set():
                break
            if len(answer.parts) > given and time.monotonic() - last >= EVERY_S:
                yield AskPart(text="".join(answer.parts[given:]))
                given, last = len(answer.parts), time.monotonic()
        why = "" if answer.whole else "the arms were stopped" if stopped.is_set() else "the server broke off"
    except (AnswerError, OSError) as error:
        why = why_none(error)
    yield AskPart(
        text="".join(answer.parts[given:]),
        done=True,
        tokens=answer.completion_tokens,
        finish_reason=answer.finish_reason,
        error=clip(line(why.replace(arm.api_key, "…") if arm.api_key else why), 500),
    )


def streamed(arm: PodArm, endpoint: str, body: Body) -> Iterator[Answer]:
    """The answer to `body`, after each of its events. Raises AnswerError, and OSError, of which an HTTPError is one."""
    answer, began = Answer(), time.monotonic()
    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    try:
        with OPENER.open(request_to(arm, endpoint, body), timeout=TIMEOUT_S) as response:
            while text := response.readline(MAX_ANSWER_BYTES):
                if text.startswith(b"data:"):
                    answer.take(text[len(b"data:") :].strip(), time.monotonic() - began)
                    yield answer
    except http.client.HTTPException as error:  # also a chunk that was cut off
        raise AnswerError(ErrorKind.PROTOCOL, f"the server broke off: {type(error).__name__}") from None


def why_none(error: AnswerError | OSError) -> str:
    """In words why an answer did not come."""
    if isinstance(error, urllib.error.HTTPError):
        body = b""
        with suppress(OSError, http.client.HTTPException):
            body = error.read(2000)
        return f"HTTP {error.code}: {error_in_body(body)}"
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    run(main)
