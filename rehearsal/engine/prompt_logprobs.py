"""What the model thinks of a text that is already written: `prompt_logprobs` of a completion, as vLLM 0.32.0
answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rehearsal.engine.forward import Cache, NeuralNetwork, Segment
from rehearsal.engine.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class TextReader:
    """The target model, with a cache of its own for each text."""

    network: NeuralNetwork
    tokenizer: Tokenizer

    def logprobs(self, tokens: Sequence[int], top: int) -> list[dict[str, Any] | None]:
        """For each token: itself and the `top` most probable ones, by id, with log-probability and rank (1: the most
        probable). None for the first, before which nothing stands.
        """
        cache = Cache(self.network.config, positions=len(tokens))
        (logits,) = self.network.forward([Segment(cache=cache, tokens=tokens, start=0, wanted=len(tokens))])
        logits = logits - logits.max(axis=-1, keepdims=True)
        known = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return [None, *(self._place(known[at - 1], tokens[at], top) for at in range(1, len(tokens)))]

    def _place(self, row: Any, token: int, top: int) -> dict[str, Any]:
        best = np.argsort(-row, kind="stable")[:top].tolist()
        return {str(each): self._entry(row, each) for each in dict.fromkeys([token, *best])}

    def _entry(self, row: Any, token: int) -> dict[str, Any]:
        # Of equal ones the first is the best, as argmax has it.
        rank = 1 + int((row > row[token]).sum()) + int((row[:token] == row[token]).sum())
        text = self.tokenizer.bytes_of(token).decode(errors="replace")
        return {"logprob": float(row[token]), "rank": rank, "decoded_token": text}
