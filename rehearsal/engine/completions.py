"""OpenAI's completion and chat answers: the JSON of whole answers and of streamed chunks."""

import time
import uuid
from typing import Any

from rehearsal.engine.protocol import GenerateRequest
from rehearsal.engine.sequence import Sequence


def drafts_of(sequence: Sequence, k: int) -> dict[str, Any]:
    """Counts of an answer's drafts and of the accepted ones, in the form of vLLM 0.32.0 (its
    RequestSpecDecodeMetrics).
    """
    histogram = [sequence.accepted[count] for count in range(k + 1)]
    steps, accepted = sum(histogram), sum(count * times for count, times in enumerate(histogram))
    return {
        "mean_acceptance_length": 1 + accepted / steps if steps else 1.0,
        "draft_acceptance_rate": accepted / sequence.drafted if sequence.drafted else 0.0,
        "acceptance_histogram": histogram,
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": sequence.drafted,
        "num_spec_tokens": k,
    }


class AnswerBody:
    """The JSON of one answer. All its parts have the same id, model and time."""

    def __init__(self, request: GenerateRequest, *, model: str) -> None:
        self._request = request
        chat = request.kind == "chat"
        self._chat = chat
        self._head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + uuid.uuid4().hex,
            "created": int(time.time()),
            "model": model,
        }

    def usage(self, completion_tokens: int) -> dict[str, int]:
        prompt = len(self._request.prompt)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt + completion_tokens,
        }

    def role_chunk(self) -> dict[str, Any]:
        """First chunk of a chat stream. It has the role and no text."""
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return self._chunk([choice], completion_tokens=0)

    def step_chunk(
        self, text: str, *, finish_reason: str | None, stop_reason: str | None, completion_tokens: int
    ) -> dict[str, Any]:
        """Chunk of one engine step. `completion_tokens` is the number so far."""
        body: dict[str, Any] = {"delta": {"content": text}} if self._chat else {"text": text}
        tail = {"logprobs": None, "finish_reason": finish_reason, "stop_reason": stop_reason}
        return self._chunk([{"index": 0, **body, **tail}], completion_tokens=completion_tokens)

    def usage_chunk(self, completion_tokens: int, drafts: dict[str, Any] | None) -> dict[str, Any]:
        """Last chunk with stream_options.include_usage: the usage, no choice, and the counts of drafts."""
        return self._chunk([], completion_tokens=None) | {"usage": self.usage(completion_tokens)} | _told(drafts)

    def whole(
        self,
        text: str,
        *,
        finish_reason: str | None,
        stop_reason: str | None,
        completion_tokens: int,
        drafts: dict[str, Any] | None,
        read: list[dict[str, Any] | None] | None,
    ) -> dict[str, Any]:
        """The answer without streaming. `read`: the model's view of each token of the prompt, if it was asked for."""
        body: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        tail = {"logprobs": None, "finish_reason": finish_reason, "stop_reason": stop_reason}
        return {
            **self._head,
            "object": "chat.completion" if self._chat else "text_completion",
            "choices": [{"index": 0, **body, **tail, **({} if read is None else {"prompt_logprobs": read})}],
            "usage": self.usage(completion_tokens),
            **_told(drafts),
        }

    def _chunk(self, choices: list[dict[str, Any]], *, completion_tokens: int | None) -> dict[str, Any]:
        chunk = {
            **self._head,
            "object": "chat.completion.chunk" if self._chat else "text_completion",
            "choices": choices,
        }
        if self._request.continuous_usage and completion_tokens is not None:
            chunk["usage"] = self.usage(completion_tokens)
        return chunk


def _told(drafts: dict[str, Any] | None) -> dict[str, Any]:
    return {"metrics": {"speculative_decoding": drafts}} if drafts else {}
