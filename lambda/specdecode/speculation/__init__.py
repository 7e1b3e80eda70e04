"""The theory of speculative decoding: expected tokens, speed-up, fit from measurements, and what to try next."""

from specdecode.speculation.fit import Fit, StepPoint, fit
from specdecode.speculation.theory import (
    acceptance_from_positions,
    acceptance_from_tokens,
    best_k,
    draft_acceptance_rate,
    expected_tokens,
    expected_tokens_from_positions,
    speedup,
)

__all__ = [
    "Fit",
    "StepPoint",
    "acceptance_from_positions",
    "acceptance_from_tokens",
    "best_k",
    "draft_acceptance_rate",
    "expected_tokens",
    "expected_tokens_from_positions",
    "fit",
    "speedup",
]
