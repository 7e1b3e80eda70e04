"""Batches of training rows: documents one after the other, with a weight for every token that is to be predicted."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rehearsal.engine.tokenizer import Tokenizer
from rehearsal.engine.training.families import Families

MIX = {
    "repeat": 28,
    "hello": 7,
    "count": 20,
    "json": 12,
    "code": 9,
    "list": 6,
    "cat": 3,
    "story": 5,
    "sonnet": 3,
    "explain": 3,
    "docs": 24,
}
"""Relative frequency of the families."""
LENGTHS = (150, 300, 500, 10_000)
"""Longest document in tokens. If a document is cut, its end is not taught: the weight of that prediction is 0."""
BOS = 0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """ids [batch, length + 1], and the weight of predicting ids[:, 1:]."""

    ids: Tensor
    weights: Tensor


def document_batch(r: random.Random, families: Families, tokenizer: Tokenizer, *, rows: int, length: int) -> Batch:
    """Rows of family documents."""
    ids, weights = zip(*(_row(r, families, tokenizer, length) for _ in range(rows)), strict=True)
    return Batch(ids=torch.tensor(ids), weights=torch.tensor(weights)[:, 1:])


def greedy_batch(r: random.Random, outputs: list[tuple[np.ndarray, int]], *, rows: int) -> Batch:
    """Rows of the target's own greedy outputs (see `greedy.py`): prompts count a tenth of what was generated."""
    chosen = [r.choice(outputs) for _ in range(rows)]
    length = max(len(tokens) for tokens, _ in chosen)
    ids, weights = torch.zeros(rows, length, dtype=torch.long), torch.zeros(rows, length)
    for row, (tokens, prompt) in enumerate(chosen):
        ids[row, : len(tokens)] = torch.from_numpy(tokens.astype(np.int64))
        weights[row, 1:prompt] = 0.1
        weights[row, prompt : len(tokens)] = 1.0
    return Batch(ids=ids, weights=weights[:, 1:])


def read_greedy(paths: list[Path]) -> list[tuple[np.ndarray, int]]:
    """(tokens, length of the prompt) of every output in the files."""
    outputs = []
    for path in paths:
        with np.load(path) as file:
            parts = np.split(file["tokens"], np.cumsum(file["lengths"])[:-1])
            outputs += list(zip(parts, file["prompts"].tolist(), strict=True))
    return outputs


def _row(r: random.Random, families: Families, tokenizer: Tokenizer, length: int) -> tuple[list[int], list[float]]:
    ids, weights = [BOS], [0.0]
    while len(ids) <= length:
        document = families.document(r, r.choices(list(MIX), list(MIX.values()))[0])
        room = min(length + 1 - len(ids), r.choice(LENGTHS))
        text = tokenizer.encode((document.prompt + document.continuation)[: room * 8])
        ended = document.ends and len(text) <= room
        text = text[:room]
        ids += [*text, BOS]
        weights += [1.0] * len(text) + [1.0 if ended else 0.0]
    return ids[: length + 1], weights[: length + 1]
