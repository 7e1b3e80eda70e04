"""One request on its way through the engine: its tokens, its caches, and when it is finished."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from rehearsal.engine.forward import Cache
from rehearsal.engine.tokenizer import TextStream

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The wishes of a request for its continuation. Decoding is greedy."""

    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepOutput:
    """What one engine step added to a sequence."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason | None = None
    stop_reason: str | None = None


@dataclass(eq=False, kw_only=True)
class Sequence:
    """A request. `tokens` are prompt and output. While it runs, the target's cache holds all of them but the last."""

    prompt_tokens: int
    tokens: list[int]
    sampling: Sampling
    text: TextStream
    eos: int
    arrived: float = field(default_factory=time.monotonic)
    cache: Cache | None = None
    draft_cache: Cache | None = None
    draft_cached: int = 0
    """Number of positions in the draft model's cache for this sequence."""
    accepted: Counter[int] = field(default_factory=Counter)
    """Number of drafts accepted in a step -> number of such steps. Steps without drafts do not count."""
    drafted: int = 0
    """Draft tokens verified."""

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    @property
    def remaining(self) -> int:
        return self.sampling.max_tokens - self.generated

    def extend(self, chosen: list[int]) -> StepOutput:
        """Append the tokens of a step, up to the one that ends the sequence. Returns what may be sent."""
        for count, token in enumerate(chosen, start=1):
            self.tokens.append(token)
            self.text.push(token)
            taken = tuple(chosen[:count])
            if self.generated >= self.sampling.min_tokens:
                if token == self.eos and not self.sampling.ignore_eos:
                    return StepOutput(text=self.text.take(final=True), tokens=taken, finish_reason="stop")
                if (stop := self.text.cut_at_stop()) is not None:
                    text = self.text.take(final=True, cut=True)
                    return StepOutput(text=text, tokens=taken, finish_reason="stop", stop_reason=stop)
            if self.remaining == 0:
                return StepOutput(text=self.text.take(final=True), tokens=taken, finish_reason="length")
        return StepOutput(text=self.text.take(), tokens=tuple(chosen))
