"""Token accounting: which formula turns a recorded request into the figures that tables, CloudWatch and LLMPerf's files
show. Four ways to count tokens, so that a figure can be compared with other tools' figures.

`usage` is ours. `vllm` is vLLM's benchmark (vllm/benchmarks/serve.py). `neuron` and `stock` are LLMPerf with AWS
Neuron's patch and as it is. They are for laying our measurement beside someone else's, not for judging speculation:
`stock` divides by streamed chunks, so an arm that packs several tokens into a chunk looks slower the faster it is.
Semantics read from ray-project/llmperf f1d6bed (`openai_chat_completions_client.py`, `token_benchmark_ray.py`) and from
the Neuron SDK's `src/benchmark/helper_scripts/neuron_perf.patch`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from specdecode.measures.metrics.formulas import (
    end_to_end_latency,
    request_output_throughput,
    time_per_output_token,
    ttft,
)
from specdecode.records import RequestRecord

Mode = Literal["usage", "vllm", "neuron", "stock"]
MODES: tuple[Mode, ...] = ("usage", "vllm", "neuron", "stock")
Retokenize = Callable[[str], int]
"""Tokens of an answer's text as LLMPerf counts them: by its tokenizer, with the beginning-of-sequence token."""
_NAMES: dict[Mode, str] = {
    "usage": "",
    "vllm": "vLLM's benchmark (vllm bench serve); ",
    "neuron": "LLMPerf with the Neuron patch; ",
    "stock": "LLMPerf as it is; ",
}
_LATENCIES: dict[Mode, str] = {
    "usage": "(last chunk - first chunk) / (tokens - tokens of the first chunk)",
    "vllm": "its TPOT, (last chunk - first chunk) / (tokens - 1)",
    "neuron": "sum of gaps after the first / (tokens - 1)",
    "stock": "(TTFT + sum of gaps) / chunks received",
}


@dataclass(frozen=True)
class Figures:
    """LLMPerf's figures of one completed request. None: the mode has no value for it."""

    ttft_s: float | None
    inter_token_latency_s: float | None
    end_to_end_latency_s: float | None
    output_throughput: float | None
    input_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True)
class Accounting:
    """How one mode counts the tokens and times of a request."""

    mode: Mode
    retokenize: Retokenize | None = None
    """Only LLMPerf's two modes use it. Without it the server's count plus one (the beginning-of-sequence token that
    LLMPerf's tokenizer adds) stands in, and the description says so."""

    @property
    def description(self) -> str:
        """What the mode counts and divides by, for every artefact that shows its figures."""
        tokens = "the server's usage"
        if self.mode in ("neuron", "stock"):
            tokens = "text retokenized" if self.retokenize else f"{tokens} + 1 in place of LLMPerf's tokenizer"
        return f"{_NAMES[self.mode]}tokens: {tokens}; inter-token latency: {_LATENCIES[self.mode]}"

    def figures(self, request: RequestRecord) -> Figures:
        """The figures of a completed request."""
        if self.mode in ("neuron", "stock"):
            return self._llmperf(request)
        return Figures(
            ttft_s=ttft.known(request),
            inter_token_latency_s=time_per_output_token.known(request) if self.mode == "usage" else _tpot(request),
            end_to_end_latency_s=end_to_end_latency.known(request),
            output_throughput=request_output_throughput.known(request),
            input_tokens=request.prompt_tokens,
            output_tokens=request.completion_tokens,
        )

    def _llmperf(self, request: RequestRecord) -> Figures:
        gaps, ttft, text = _content(request)
        counted = None if request.completion_tokens is None else request.completion_tokens + 1
        tokens = self.retokenize(text) if self.retokenize else counted
        return Figures(
            ttft_s=ttft,
            inter_token_latency_s=_latency(request, gaps, tokens, patched=self.mode == "neuron"),
            end_to_end_latency_s=request.end_s,
            output_throughput=tokens / request.end_s if tokens is not None and request.end_s > 0 else None,
            input_tokens=request.requested_input_tokens,
            output_tokens=tokens,
        )


def _tpot(request: RequestRecord) -> float | None:
    """`(latency - ttft) / (output_len - 1)` of vllm/benchmarks/serve.py, whose latency ends with the last chunk."""
    tokens = request.completion_tokens
    if tokens is None or tokens < 2 or not request.chunks:
        return None
    return (request.chunks[-1].at_s - request.chunks[0].at_s) / (tokens - 1)


def _latency(request: RequestRecord, gaps: list[float], tokens: int | None, *, patched: bool) -> float | None:
    """LLMPerf's inter-token latency; `patched` by AWS Neuron."""
    if not patched:
        return 0.0 if tokens == 0 or not request.events else sum(gaps) / request.events
    if tokens is None:
        return None
    return sum(gaps[1:]) / (tokens - 1) if tokens > 1 else 0.0


def _content(request: RequestRecord) -> tuple[list[float], float, str]:
    """LLMPerf's `time_to_next_token` (first the TTFT), TTFT and text. It does not read reasoning."""
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
