"""Several runs compared, as data."""

from __future__ import annotations

from datetime import datetime

from specdecode.analysis.results.parts import Estimate, Verdict
from specdecode.experiment.level import Level
from specdecode.experiment.model import Frozen


class OverRuns(Frozen):
    """One arm and case over runs of the same question."""

    speedup: Estimate
    """Geometric mean over the runs; its interval is over runs, None with a single one."""
    verdicts: tuple[Verdict, ...]


class Carried(Frozen):
    """What one arm carried at the service-level objective, in each run; None: not even the smallest load."""

    variant: str
    before: tuple[Level | None, ...]
    after: tuple[Level | None, ...] = ()
    """Of the second question's runs; empty of runs of one question."""


class CaseChange(Frozen):
    """One arm and case in both sets of runs."""

    variant: str
    case: str
    before: OverRuns
    after: OverRuns
    change: Estimate
    """after / before: above 1 the speed-up is larger; without an interval where a set is a single run."""
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
    """What differs between the two: versions and experiment, one line each."""
    incomparable: tuple[str, ...]
    """Which of them make any comparison of speed-ups meaningless (model, load, lengths, sampling)."""
    carried: tuple[Carried, ...] = ()
    """Largest load that each arm keeps the objective at, where both sets have one and the same."""
    other_objective: tuple[str, ...] = ()
    """What differs in the objective: then what the arms carry is not compared."""


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
    """The same over this and all earlier runs of the same question."""
    failed: int
