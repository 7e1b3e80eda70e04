"""Several runs compared, as data."""

from __future__ import annotations

from datetime import datetime

from specdecode.analysis.results.parts import Estimate, Verdict
from specdecode.experiment.model import Frozen
from specdecode.experiment.workload import Level


class OverRuns(Frozen):
    """One arm and case over runs of the same question."""

    speedup: Estimate
    """Geometric mean over the runs. The interval is over runs; a single run has none."""
    verdicts: tuple[Verdict, ...]


class Carried(Frozen):
    """Load that one arm carried within the service-level objective, in each run. None: not even the smallest load."""

    variant: str
    before: tuple[Level | None, ...]
    after: tuple[Level | None, ...] = ()
    """The same for the runs of the second question. Empty if all runs ask one question."""


class CaseChange(Frozen):
    """One arm and case in both sets of runs."""

    variant: str
    case: str
    before: OverRuns
    after: OverRuns
    change: Estimate
    """after / before: above 1 the speed-up grew. It has no interval if a set is a single run."""
    shown: bool
    """The interval of the change excludes 1."""


class RunDifference(Frozen):
    """The runs of the second question against those of the first."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    cases: tuple[CaseChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    settings: tuple[str, ...]
    """Differences in versions and experiment, one line each."""
    incomparable: tuple[str, ...]
    """Differences that make speed-ups incomparable (model, load, lengths, sampling)."""
    carried: tuple[Carried, ...] = ()
    """Largest load at which each arm keeps the objective. Empty unless both sets have the same objective."""
    other_objective: tuple[str, ...] = ()
    """Differences in the objective. If there are any, `carried` is not compared."""


class Repeated(Frozen):
    """Runs of one question together."""

    runs: tuple[str, ...]
    cases: dict[str, OverRuns]
    """`variant/case` -> its figure over the runs."""
    carried: tuple[Carried, ...] = ()


class TrendPoint(Frozen):
    """One run of a series."""

    run_id: str
    experiment: str
    started_at: datetime
    answer: str
    speedups: dict[str, float]
    """`variant/group` -> speed-up on the headline metric."""
    over_runs: dict[str, Estimate]
    """Geometric mean over this run and all earlier runs of the same question."""
    failed: int
