"""Length of a text in tokens: by the model's own tokenizer if it is at hand, else estimated."""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

from specdecode.prompts import CHARACTERS_PER_TOKEN, about_tokens


class EstimatedTokens:
    """Estimates the count from the characters."""

    exact = False
    """Whether the counts come from the model's own tokenizer."""
    description = f"estimated, {CHARACTERS_PER_TOKEN:g} characters a token"

    def count(self, text: str) -> int:
        return max(1, math.ceil(about_tokens(text)))

    def cut(self, text: str, tokens: int) -> str:
        """The longest start of `text` with at most `tokens` tokens."""
        return text[: int(tokens * CHARACTERS_PER_TOKEN)]


class TokenizerFile:
    """Counts by a `tokenizer.json` (needs the package `tokenizers`, which the bundle has)."""

    exact = True

    def __init__(self, tokenizer: Any, path: Path) -> None:
        self._tokenizer = tokenizer
        self.description = f"exact, {path}"
        self.count = lru_cache(maxsize=4096)(self._count)

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def cut(self, text: str, tokens: int) -> str:
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        end = len(text) if len(offsets) <= tokens else offsets[tokens - 1][1] if tokens > 0 else 0
        while self._count(text[:end]) > tokens:
            end -= 1
        return text[:end]


TokenCounter = EstimatedTokens | TokenizerFile
"""Counts tokens of a text, without any special tokens."""


def token_counter(folder: str | None) -> tuple[TokenCounter, str | None]:
    """The best counter for a model's folder (or a tokenizer.json); and why it is not exact, if an exact one was asked
    for.

    Never raises: a pod's benchmark with prompts of estimated length is better than none, and the report says so.
    """
    if folder is None:
        return EstimatedTokens(), None
    path = Path(folder)
    path = path / "tokenizer.json" if path.is_dir() else path
    try:
        from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return EstimatedTokens(), "the package `tokenizers` is not installed: prompt lengths are estimated"
    try:
        return TokenizerFile(Tokenizer.from_file(str(path)), path), None
    except Exception as error:  # tokenizers raises bare Exception
        return EstimatedTokens(), f"cannot read {path} ({error}): prompt lengths are estimated"
