"""Which formula turns a recorded request into the figures that tables, CloudWatch and LLMPerf's files show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from specdecode.records import RequestRecord

Mode = Literal["usage", "vllm", "neuron", "stock"]
MODES: tuple[Mode, ...] = ("usage", "vllm", "neuron", "stock")
Retokenize = Callable[[str], int]
"""Tokens of an answer's text as LLMPerf counts them: by its tokenizer, with the beginning-of-sequence token."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """LLMPerf's figures of one completed request. None: the mode has no value for it."""

    ttft_s: float | None
    inter_token_latency_s: float | None
    end_to_end_latency_s: float | None
    output_throughput: float | None
    input_tokens: int | None
    output_tokens: int | None


class Accounting(Protocol):
    """A token-accounting mode."""

    @property
    def mode(self) -> Mode: ...

    @property
    def description(self) -> str:
        """What the mode counts and divides by, for every artefact that shows its figures."""

    def figures(self, request: RequestRecord) -> Figures: ...
