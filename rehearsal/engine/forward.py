"""The forward pass: any number of sequences, each with any number of new tokens, in one pass over the weights.

The rows of all sequences are stacked, so every dense layer is one matrix product for the whole batch; only
attention runs sequence by sequence, each on its own cache and length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rehearsal.engine.artifact import CompiledArrays
from rehearsal.engine.config import ModelConfig
from rehearsal.engine.packing import MATRICES, Array


class Cache:
    """Keys and values of one sequence, in the order that the two products of attention need. A smaller `start` in the
    next segment undoes positions.
    """

    def __init__(self, config: ModelConfig, *, positions: int) -> None:
        shape = (config.num_hidden_layers, config.heads)
        self.keys = np.zeros((*shape, config.head_dim, positions), np.float32)
        self.values = np.zeros((*shape, positions, config.head_dim), np.float32)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """New tokens of one sequence: `tokens[start:]`. The positions before `start` are in the cache already."""

    cache: Cache
    tokens: Sequence[int]
    start: int
    wanted: int
    """Number of the last tokens for which logits are computed."""

    @property
    def length(self) -> int:
        return len(self.tokens) - self.start


class NeuralNetwork:
    """One model with its weights, ready to run."""

    def __init__(self, config: ModelConfig, compiled: CompiledArrays) -> None:
        self.config = config
        weights, tables = compiled.weights, compiled.tables
        self._embeddings = [weights[f"embedding.{i}"] for i in range(config.ngram_embeddings)]
        self._layers = [
            tuple(weights[f"{layer}.{name}"] for name in MATRICES) for layer in range(config.num_hidden_layers)
        ]
        self._head = weights["head"]
        self._cosine, self._sine = tables["cosine"], tables["sine"]
        positions = len(self._cosine)
        self._mask = np.triu(np.full((positions, positions), -1e9, np.float32), 1)

    def forward(self, segments: Sequence[Segment]) -> list[Array]:
        """Logits [wanted, vocabulary] of every segment; the caches get the new tokens' keys and values."""
        ends = np.cumsum([segment.length for segment in segments]).tolist()
        rows = [slice(end - segment.length, end) for segment, end in zip(segments, ends, strict=True)]
        positions = np.concatenate([np.arange(segment.start, len(segment.tokens)) for segment in segments])
        cosine, sine = self._cosine[positions][:, None, None], self._sine[positions][:, None, None]
        x = self._embed(segments)
        for layer, (qkv, out, up, down) in enumerate(self._layers):
            x += self._attention(self._norm(x) @ qkv, segments, rows, layer, cosine, sine) @ out
            hidden = self._norm(x) @ up
            np.maximum(hidden, 0, out=hidden)
            hidden *= hidden
            x += hidden @ down
        wanted = [segment.wanted for segment in segments]
        kept = np.concatenate([np.arange(end - count, end) for end, count in zip(ends, wanted, strict=True)])
        logits: Array = self._norm(x[kept]) @ self._head
        return np.split(logits, np.cumsum(wanted)[:-1])

    def _embed(self, segments: Sequence[Segment]) -> Array:
        """Sum of the embeddings of each token and of the tokens before it (token 0 before the beginning)."""
        total: Array = np.zeros((), np.float32)
        for back, table in enumerate(self._embeddings):
            ids: list[int] = []
            for segment in segments:
                first = segment.start - back
                ids += [0] * min(-first, segment.length) if first < 0 else []
                ids += segment.tokens[max(first, 0) : max(len(segment.tokens) - back, 0)]
            total = total + table[ids]
        return total

    def _norm(self, x: Array) -> Array:
        scale: Array = np.sqrt(np.einsum("td,td->t", x, x) / x.shape[1] + self.config.rms_norm_eps)
        normed: Array = x / scale[:, None]
        return normed

    def _attention(
        self, qkv: Array, segments: Sequence[Segment], rows: list[slice], layer: int, cosine: Array, sine: Array
    ) -> Array:
        heads, width = self.config.heads, self.config.head_dim
        qkv = qkv.reshape(-1, 3, heads, width)
        rotated: Array = qkv[:, :2]
        half = width // 2
        swapped = np.concatenate([rotated[..., half:], rotated[..., :half]], axis=-1)
        rotated = rotated * cosine
        rotated += swapped * sine
        result = np.empty((len(qkv), heads, width), np.float32)
        for segment, row in zip(segments, rows, strict=True):
            start, end = segment.start, len(segment.tokens)
            keys, values = segment.cache.keys[layer], segment.cache.values[layer]
            keys[:, :, start:end] = rotated[row, 1].transpose(1, 2, 0)
            values[:, start:end] = qkv[row, 2].transpose(1, 0, 2)
            scores = rotated[row, 0].transpose(1, 0, 2) @ keys[:, :, :end]
            if end - start > 1:
                scores[:, :, start:] += self._mask[: end - start, : end - start]
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            result[row] = (scores @ values[:, :end]).transpose(1, 0, 2)
        return result.reshape(-1, heads * width)
