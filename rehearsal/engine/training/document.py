"""A training document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

LONG = 6000
"""Characters of a continuation without end: more than any window holds."""


@dataclass(frozen=True, kw_only=True)
class TrainingText:
    """A prompt and its continuation; `ends`: the document ends there; else it was cut."""

    prompt: str
    continuation: str
    ends: bool


def endless(prompt: str, unit: Callable[[int], str]) -> TrainingText:
    """A document that goes on with unit(0), unit(1), ... for ever."""
    parts: list[str] = []
    while sum(map(len, parts)) <= LONG:
        parts.append(unit(len(parts)))
    return TrainingText(prompt=prompt, continuation="".join(parts), ends=False)
