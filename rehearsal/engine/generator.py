"""Greedy decoding of a batch, plain or with a draft model: one call of `step` is one pass of the target model.

Why it is so: ADR 30.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np

from rehearsal.engine.forward import NeuralNetwork, Segment
from rehearsal.engine.packing import Array
from rehearsal.engine.sequence import Sequence


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The target's tokens for one sequence in one step, and the counts of its draft."""

    sequence: Sequence
    chosen: list[int]
    """The accepted part of the draft and the target's own next token: 1 to drafted + 1 tokens."""
    drafted: int

    @property
    def accepted(self) -> int:
        return len(self.chosen) - 1


class Generator:
    """The target model and, with speculation, its draft model."""

    def __init__(
        self,
        *,
        target: NeuralNetwork,
        draft: NeuralNetwork | None = None,
        k: int = 0,
        verified: int = 0,
        draft_window: int = 0,
    ) -> None:
        """`k`: passes of the draft in a step. `verified`: how many of the draft's tokens the target checks, k or k -
        1.
        """
        self._target = target
        self._draft = draft
        self._k = k
        self._verified = verified
        self._draft_window = draft_window

    def step(self, batch: Items[Sequence]) -> list[Verified]:
        """Draft for the sequences that have output already, then verify all sequences in one pass. A sequence without
        output is in its first step, and its whole prompt is the segment. Afterwards the caches hold the rejected tokens
        too. The next step overwrites them; until then nothing reads them, since a cache is read only up to the
        sequence's own length.
        """
        drafts = self._propose([sequence for sequence in batch if sequence.generated > 0])
        proposals = [drafts.get(sequence, [])[: self._verified] for sequence in batch]
        segments = [
            _segment(sequence, proposal, cached=len(sequence.tokens) - 1 if sequence.generated else 0)
            for sequence, proposal in zip(batch, proposals, strict=True)
        ]
        logits = self._target.forward(segments)
        return [
            Verified(sequence=sequence, chosen=_accept(sequence, proposal, rows), drafted=len(proposal))
            for sequence, proposal, rows in zip(batch, proposals, logits, strict=True)
        ]

    def _propose(self, batch: list[Sequence]) -> dict[Sequence, list[int]]:
        """Up to k tokens for each sequence, one draft pass per position for all of them together.

        It drafts no token beyond max_tokens or the draft's window.
        """
        if self._draft is None:
            return {}
        drafts: dict[Sequence, list[int]] = {sequence: [] for sequence in batch if self._draft_length(sequence) > 0}
        for position in range(self._k):
            active = [sequence for sequence in drafts if self._draft_length(sequence) > position]
            if not active:
                break
            segments = []
            for sequence in active:
                assert sequence.draft_cache is not None
                tokens = sequence.tokens + drafts[sequence]
                start, sequence.draft_cached = sequence.draft_cached, len(tokens)
                segments.append(Segment(cache=sequence.draft_cache, tokens=tokens, start=start, wanted=1))
            for sequence, logits in zip(active, self._draft.forward(segments), strict=True):
                drafts[sequence].append(int(logits[-1].argmax()))
        return drafts

    def _draft_length(self, sequence: Sequence) -> int:
        return min(self._k, sequence.remaining - 1, self._draft_window - len(sequence.tokens))


def _segment(sequence: Sequence, proposal: list[int], *, cached: int) -> Segment:
    assert sequence.cache is not None
    tokens = sequence.tokens + proposal
    return Segment(cache=sequence.cache, tokens=tokens, start=cached, wanted=1 + len(proposal))


def _accept(sequence: Sequence, proposal: list[int], logits: Array) -> list[int]:
    """The target's greedy tokens, up to and including the first that differs from the draft."""
    forbidden = sequence.sampling.min_tokens - sequence.generated
    if forbidden > 0:
        logits[:forbidden, sequence.eos] = -np.inf
    best: list[int] = logits.argmax(axis=-1).tolist()
    accepted = next((i for i, token in enumerate(proposal) if token != best[i]), len(proposal))
    chosen = best[: accepted + 1]
    return chosen
