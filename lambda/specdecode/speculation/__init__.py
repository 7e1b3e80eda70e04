"""The theory of speculative decoding: expected tokens, speed-up, and what to try next."""

from specdecode.speculation.theory import (
    acceptance_from_positions,
    acceptance_from_tokens,
    expected_tokens,
    speedup,
)

__all__ = [
    "acceptance_from_positions",
    "acceptance_from_tokens",
    "expected_tokens",
    "speedup",
]
