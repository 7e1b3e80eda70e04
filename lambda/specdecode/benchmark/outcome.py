"""Options of a benchmark beside its specification, and its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from specdecode.benchmark.clients import Meeting
from specdecode.records import Servers


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that a specification does not have."""

    folder: Path
    upload: str | None = None
    meeting: Meeting | None = None
    """Meeting with the other clients, if levels take several. None: this client is alone."""
    duration_s: float | None = None
    """Seconds of load, instead of the workload's number of requests."""
    arrivals: Literal["poisson", "constant"] = "poisson"
    ramp_s: float = 0.0


class SentCounts(NamedTuple):
    """Requests of one arm, case and level."""

    started: int
    failed: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a benchmark. It has no figures: `specdecode.measures` computes them from the records."""

    servers: Servers
    sent: Mapping[tuple[str, str, str], SentCounts]
    """By variant, case and level."""
    problems: tuple[str, ...]
    """Problems other than failed requests: results that could not be stored."""


def failed_beyond(outcome: Outcome, max_error_rate: float) -> list[str]:
    """The blocks in which more than `max_error_rate` of the requests failed, or all of them."""
    return [
        f"{variant}/{case}/{level}: {sent.failed / max(sent.started, 1):.0%} of the requests failed"
        for (variant, case, level), sent in outcome.sent.items()
        if sent.failed > max_error_rate * sent.started or sent.failed == sent.started
    ]
