"""Leviathan, Kalman, Matias 2023 (arXiv 2211.17192): how many tokens a step yields and what it gains.

Symbols, the same everywhere in this project:

    k   speculative tokens per step: how often the draft runs (0: no speculation)
    n   drafts of these that the target verifies: k, or k - 1 (MostTokens: a property of the engine)
    a   acceptance: chance that a draft token is accepted, given that all before it were (alpha in the paper)
    c   cost of one draft token, in steps of the target model without speculation
    v   overhead: what verifying n+1 tokens instead of one adds to a target step, in the same unit
    E   expected tokens per step of the target model
    S   speed-up of decoding (ratio of time per output token)

Two rates are called "acceptance rate" and must not be mixed: `a` above, and the draft acceptance rate
accepted / drafted that vLLM reports, for which E = 1 + n * rate holds exactly. The second depends on n: never put it
into the geometric form.
"""

from collections.abc import Sequence
from itertools import pairwise, takewhile

from specdecode.experiment.most_tokens import MostTokens


def expected_tokens(a: float, n: int) -> float:
    """E = (1 - a^(n+1)) / (1 - a), tokens per step; n+1 for a = 1."""
    if not 0.0 <= a <= 1.0 or n < 0:
        raise ValueError(f"acceptance must lie in [0, 1], and 0 verified drafts or more are needed: {a}, {n}")
    return float(n + 1) if a == 1.0 else (1.0 - a ** (n + 1)) / (1.0 - a)


def speedup(a: float, k: int, c: float, v: float = 0.0, *, most: MostTokens) -> float:
    """S = E / (1 + k c + v); 1 for k = 0. The draft runs k times on either kind of engine, so `most` changes E."""
    return 1.0 if k == 0 else expected_tokens(a, most.verified(k)) / (1.0 + k * c + v)


def acceptance_from_tokens(tokens_per_step: float, n: int) -> float:
    """The a that gives E tokens per step with n drafts verified, by bisection; within [0, 1] outside 1 <= E <= n+1."""
    if n < 1:
        raise ValueError(f"acceptance needs one verified draft or more: {n}")
    if tokens_per_step <= 1.0:
        return 0.0
    if tokens_per_step >= n + 1:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if expected_tokens(middle, n) < tokens_per_step else (low, middle)
    return (low + high) / 2.0


def acceptance_from_positions(accepted_per_position: Sequence[int], drafts: int) -> tuple[float, ...]:
    """Acceptance at each position: accepted at i / accepted at i-1 (position 0: all drafts), as far as one was reached.
    Counters of vLLM: `spec_decode_num_accepted_tokens_per_pos` and `…_num_drafts`.
    """
    steps = takewhile(lambda step: step[0] > 0, pairwise((drafts, *accepted_per_position)))
    return tuple(accepted / before for before, accepted in steps)
