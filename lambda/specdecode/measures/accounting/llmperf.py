"""LLMPerf's own figures, as it is (`stock`) and with AWS Neuron's patch (`neuron`), from a recorded request.

For laying our measurement beside someone else's, not for judging speculation: `stock` divides by streamed chunks, so
an arm that packs several tokens into a chunk looks slower the faster it is. Semantics read from
ray-project/llmperf f1d6bed (`openai_chat_completions_client.py`, `token_benchmark_ray.py`) and from the Neuron SDK's
`src/benchmark/helper_scripts/neuron_perf.patch`.
"""

from __future__ import annotations

from specdecode.measures.accounting.base import Figures, Mode, Retokenize
from specdecode.records import RequestRecord


class LlmperfAccounting:
    """Both modes; they differ in the inter-token latency only.

    `retokenize` counts an answer's tokens as LLMPerf does. Without it the server's count plus one (the
    beginning-of-sequence token that LLMPerf's tokenizer adds) stands in, and the description says so.
    """

    def __init__(self, *, patched: bool, retokenize: Retokenize | None = None) -> None:
        self.mode: Mode = "neuron" if patched else "stock"
        self._patched = patched
        self._retokenize = retokenize
        latency = "sum of gaps after the first / (tokens - 1)" if patched else "(TTFT + sum of gaps) / chunks received"
        tokens = "text retokenized" if retokenize else "the server's usage + 1 in place of LLMPerf's tokenizer"
        name = "LLMPerf with the Neuron patch" if patched else "LLMPerf as it is"
        self.description = f"{name}; tokens: {tokens}; inter-token latency: {latency}"

    def figures(self, request: RequestRecord) -> Figures:
        gaps, ttft, text = _content(request)
        tokens = self._output_tokens(request, text)
        return Figures(
            ttft_s=ttft,
            inter_token_latency_s=self._inter_token_latency(request, gaps, tokens),
            end_to_end_latency_s=request.end_s,
            output_throughput=None if tokens is None else tokens / request.end_s,
            input_tokens=request.requested_input_tokens,
            output_tokens=tokens,
        )

    def _output_tokens(self, request: RequestRecord, text: str) -> int | None:
        if self._retokenize is not None:
            return self._retokenize(text)
        return None if request.completion_tokens is None else request.completion_tokens + 1

    def _inter_token_latency(self, request: RequestRecord, gaps: list[float], tokens: int | None) -> float | None:
        if self._patched:
            if tokens is None:
                return None
            return sum(gaps[1:]) / (tokens - 1) if tokens > 1 else 0.0
        if tokens == 0 or not request.events:
            return 0.0
        return sum(gaps) / request.events


def _content(request: RequestRecord) -> tuple[list[float], float, str]:
    """LLMPerf's `time_to_next_token` (its first entry is the TTFT), TTFT and text. Reasoning is left out, since LLMPerf
    does not read it.
    """
    gaps: list[float] = []
    pieces: list[str] = []
    before = ttft = 0.0
    position = 0
    for chunk in request.chunks:
        if chunk.chars > chunk.reasoning_chars:
            ttft = ttft or chunk.at_s
            gaps.append(chunk.at_s - before)
            before = chunk.at_s
            pieces.append(request.output[position + chunk.reasoning_chars : position + chunk.chars])
        position += chunk.chars
    return gaps, ttft, "".join(pieces)
