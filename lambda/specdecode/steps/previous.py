"""The run that a new run is compared with: the last good one that asked the same question."""

from __future__ import annotations

import re
from typing import Any

from specdecode import s3_keys
from specdecode.analysis import Comparison
from specdecode.analysis.results.comparison import read_report
from specdecode.analysis.results.pairs import Verdict
from specdecode.experiment import Experiment
from specdecode.runs.state import RunState, StateDamaged, load_state
from specdecode.store import Store
from specdecode.untrusted import Unreadable

LOOKED_AT = 500
"""Most states that are read. A bucket keeps its runs for ever; the report has minutes for this many
(docs/reference/faults.md).
"""
_TIME = re.compile(r"(?<=-)\d{8}-\d{6}(?=-)")


def last_good(store: Store, comparison: Comparison, *, before: RunState) -> Comparison | None:
    """The newest earlier report on the same question with at least one verdict. None if there is none.

    It reads one small object for each of the LOOKED_AT newest runs (by the time in their ids), and reports only of runs
    of the same experiment. A report that this version cannot read is skipped.
    """
    newest = sorted(store.folders("runs/"), key=_began, reverse=True)[:LOOKED_AT]
    states = [_state(store, run_id) for run_id in newest]
    earlier = [
        state
        for state in states
        if state and state.experiment == before.experiment and state.started_at < before.started_at
    ]
    for state in sorted(earlier, key=lambda state: state.started_at, reverse=True):
        found = _report(store, state.run_id)
        if found and _question(found.experiment) == _question(comparison.experiment) and _is_judged(found):
            return found
    return None


def _began(run_id: str) -> str:
    """The time in an id that the command line made. "" for other ids (the console's)."""
    found = _TIME.search(run_id)
    return found[0] if found else ""


def _state(store: Store, run_id: str) -> RunState | None:
    try:
        return load_state(store, run_id)
    except StateDamaged:
        return None


def _report(store: Store, run_id: str) -> Comparison | None:
    data = store.read(s3_keys.run_key(run_id, "report.json"))
    try:
        return None if data is None else read_report(data)
    except Unreadable:
        return None


def _question(experiment: Experiment) -> tuple[Any, ...]:
    """What must be equal so that two speed-ups can be compared: all but the engine, whose new version may be the reason
    to compare.
    """
    return experiment.name, experiment.target, experiment.served_with, experiment.variants, experiment.workload


def _is_judged(comparison: Comparison) -> bool:
    return any(
        result.verdict not in (Verdict.CANNOT_TELL, Verdict.DISTRUST)
        for pair in comparison.pairs
        for result in pair.cases
    )
