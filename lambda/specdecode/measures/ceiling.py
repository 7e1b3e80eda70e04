"""The most tokens that one step of an engine can give. A larger figure is wrong: something distorted the measurement
(ADR 71).
"""

from __future__ import annotations

from specdecode.experiment.model import MOST_DRAFTED
from specdecode.experiment.most_tokens import MostTokens

SLACK = 1.02
"""A mean is accepted up to this factor above the ceiling: a server that falls behind now and then sends two steps in
one chunk."""


def most_tokens_per_step(k: int | None, most: MostTokens) -> float:
    """Every verified draft accepted, and the target's own token. Of an unknown k, the largest that can be asked for.

    Leviathan, Kalman, Matias 2023 (arXiv 2211.17192, section 2.1): a step that verifies n drafts yields 1 to n + 1
    tokens; 1 without drafts. `most`: whether the engine verifies k or k - 1 of them.
    """
    return (MOST_DRAFTED if k is None else most.verified(k)) + 1.0
