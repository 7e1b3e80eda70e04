"""What a gate found, as data: its checks, each with the outcome and the reason."""

from __future__ import annotations

from enum import StrEnum

from specdecode.experiment.model import Frozen

WRONG = 0.05
"""Share of gates with either wrong answer, at most."""


class Decision(StrEnum):
    """How a check, or the gate, ended."""

    PASSED = "passed"
    FAILED = "failed"
    CANNOT_TELL = "cannot tell"


class GateCheck(Frozen):
    """One limit, on one arm."""

    arm: str
    about: str
    """What it is of: a case, or all prompts; of several loads, at which."""
    load: str
    """Name of the load: `c8`, `r0.5`."""
    limit: str
    speedup: bool
    """The ratio is a speed-up over a baseline; else the throughput over that of the runs before."""
    outcome: Decision
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Interval of the ratio that holds together with those of all other checks."""


class Gate(Frozen):
    """All checks of one call."""

    runs: tuple[str, ...]
    """Those that are judged."""
    against: tuple[str, ...] = ()
    """Those that they are held against, of a regression."""
    checks: tuple[GateCheck, ...]
    between_runs: float
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Decision:
        """Failed if one check did; else cannot tell if one cannot; else passed."""
        outcomes = {check.outcome for check in self.checks}
        return next(
            (each for each in (Decision.FAILED, Decision.CANNOT_TELL) if each in outcomes),
            Decision.PASSED,
        )
