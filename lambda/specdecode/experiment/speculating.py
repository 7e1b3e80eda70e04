"""How one arm speculates: the method, the draft, and how many tokens it drafts."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from specdecode.experiment.base import MOST_DRAFTED, Frozen
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.weights import ModelRef


class Method(StrEnum):
    """How tokens are speculated. The first two use a draft model, the others a head trained for the target."""

    VANILLA_DRAFT = "vanilla-draft"
    FUSED_DRAFT = "fused-draft"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    DFLASH = "dflash"
    MEDUSA = "medusa"


class Speculation(Frozen):
    """Speculative decoding of one variant."""

    method: Method = Method.FUSED_DRAFT
    """How tokens are speculated; `specdecode engines` lists the methods of each image."""
    draft: ModelRef
    """The draft model, or the head."""
    num_speculative_tokens: int = Field(ge=1, le=MOST_DRAFTED)
    """k: tokens that are drafted for each step of the target."""
    num_speculative_tokens_per_batch_size: tuple[tuple[int, int, int], ...] = Field(default=(), max_length=100)
    """k by load, as a report prints it for engines that take it: `[first, last, k]` for ranges of running requests with
    both ends, the first from 1, in order; k = 0 does not speculate. Beyond the last range its k stays."""
    draft_max_model_len: int | None = Field(default=None, ge=1)
    """Window of the draft. Unset: the target's."""
    most_tokens_per_step: MostTokens | None = None
    """Only for a server that already runs: `k` for NxD Inference's engines, `k+1` (if unset) for others.
    For arms that the run serves, the engine's file says it."""

    @model_validator(mode="after")
    def _ranges_follow_each_other(self) -> Self:
        """Refuse what vLLM refuses (v1/spec_decode/dynamic/utils.py, 0.32.0), and what it would change silently."""
        after = 0
        for first, last, k in self.num_speculative_tokens_per_batch_size:
            said = f"num_speculative_tokens_per_batch_size: [{first}, {last}, {k}]"
            if first != after + 1 or last < first:
                raise ValueError(f"{said}: ranges begin at 1 and each after the one before: write [{after + 1}, …]")
            if not 0 <= k <= self.num_speculative_tokens:
                raise ValueError(f"{said}: k is 0 to num_speculative_tokens, here {self.num_speculative_tokens}")
            after = last
        return self

    @property
    def k_of_each_step(self) -> int | None:
        """k; None if it depends on the load."""
        return None if self.num_speculative_tokens_per_batch_size else self.num_speculative_tokens

    @property
    def k_in_words(self) -> str:
        """`k=5`; `k=5 at 1 to 4, 0 at 5 to 32 running`."""
        ranges = [f"{k} at {first} to {last}" for first, last, k in self.num_speculative_tokens_per_batch_size]
        return f"k={', '.join(ranges)} running" if ranges else f"k={self.num_speculative_tokens}"
