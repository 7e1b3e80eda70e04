"""What a benchmark is told beside its specification, and what it came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from specdecode.benchmark.meeting import Meeting
from specdecode.records import Servers


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a specification does not say."""

    folder: Path
    upload: str | None = None
    meeting: Meeting | None = None
    """With the other clients, where levels take several; None: this one is alone."""
    duration_s: float | None = None
    """Instead of the workload's number of requests."""
    arrivals: Literal["poisson", "constant"] = "poisson"
    ramp_s: float = 0.0


class SentCounts(NamedTuple):
    """Requests of one arm, case and level."""

    started: int
    failed: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a benchmark came to; its figures are in no outcome, `specdecode.measures` has them from the records."""

    servers: Servers
    sent: Mapping[tuple[str, str, str], SentCounts]
    """By variant, case and level."""
    problems: tuple[str, ...]
    """What went wrong beside single requests: results that could not be stored."""


def failed_beyond(outcome: Outcome, max_error_rate: float) -> list[str]:
    """The blocks in which more than `max_error_rate` of the requests failed, or all of them."""
    return [
        f"{variant}/{case}/{level}: {sent.failed / max(sent.started, 1):.0%} of the requests failed"
        for (variant, case, level), sent in outcome.sent.items()
        if sent.failed > max_error_rate * sent.started or sent.failed == sent.started
    ]
