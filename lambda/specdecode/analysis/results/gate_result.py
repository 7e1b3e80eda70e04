"""Result of a gate, as data: its checks, each with the outcome and the reason."""

from __future__ import annotations

from enum import StrEnum

from specdecode.experiment.model import Frozen

WRONG = 0.05
"""Largest share of gates that end with a wrong answer, of either kind."""


class Decision(StrEnum):
    """Outcome of a check or of the gate."""

    PASSED = "passed"
    FAILED = "failed"
    CANNOT_TELL = "cannot tell"


class GateCheck(Frozen):
    """One limit on one arm."""

    arm: str
    about: str
    """The case, or all prompts; with the load if there are several."""
    load: str
    """Name of the load: `c8`, `r0.5`."""
    limit: str
    speedup: bool
    """True if the ratio is a speed-up over a baseline; False if it compares throughput with the runs before."""
    outcome: Decision
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Interval of the ratio. The intervals of all checks hold together."""


class Gate(Frozen):
    """All checks of one call."""

    runs: tuple[str, ...]
    """Ids of the runs that are judged."""
    against: tuple[str, ...] = ()
    """Ids of the runs that a regression is measured against."""
    checks: tuple[GateCheck, ...]
    between_runs: float
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Decision:
        """Failed if a check failed. Else cannot tell if a check cannot tell. Else passed."""
        outcomes = {check.outcome for check in self.checks}
        return next(
            (each for each in (Decision.FAILED, Decision.CANNOT_TELL) if each in outcomes),
            Decision.PASSED,
        )
