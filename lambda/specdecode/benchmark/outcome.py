"""What a benchmark is told beside its specification, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from specdecode.benchmark.metrics import ErrorRate, Slo


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a specification does not say."""

    folder: Path
    upload: str | None = None
    publish: bool = False
    duration_s: float | None = None
    """Instead of the workload's number of requests."""
    arrivals: Literal["poisson", "constant"] = "poisson"
    ramp_s: float = 0.0
    slo: Slo = field(default_factory=Slo)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a benchmark came to."""

    summary: dict[str, Any]
    problems: tuple[str, ...]
    """What went wrong beside single requests: results that could not be stored."""
    unpublished: tuple[str, ...] = ()
    """Why metrics are not in CloudWatch yet. They are kept and sent later: no reason to measure again."""

    @property
    def error_rates(self) -> dict[str, float]:
        """`variant/case` -> share of failed requests, 1 where there is no block."""
        return {
            f"{block['variant']}/{block['case']}": block["metrics"].get(ErrorRate.tag, 1.0)
            for block in self.summary["blocks"]
        }


def failed_beyond(outcome: Outcome, max_error_rate: float) -> list[str]:
    """The blocks in which more than `max_error_rate` of the requests failed, or all of them."""
    return [
        f"{name}: {rate:.0%} of the requests failed"
        for name, rate in outcome.error_rates.items()
        if rate > max_error_rate or rate >= 1
    ]
