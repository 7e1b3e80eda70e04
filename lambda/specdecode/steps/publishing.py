"""What a report sends to CloudWatch: the comparison's figures, and once the figures of its requests."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from specdecode import names, s3_keys
from specdecode.analysis import AtLevel, Comparison, measure
from specdecode.analysis.datums import metric_data
from specdecode.analysis.results.comparison import read_report
from specdecode.analysis.results.pairs import Verdict
from specdecode.experiment import Experiment
from specdecode.measures.accounting import Accounting
from specdecode.measures.publish import Datum, places
from specdecode.measures.publish import metric_data as request_data
from specdecode.measures.publish import publish as send
from specdecode.runs.state import RunState, StateDamaged, change_state, load_state
from specdecode.steps import logs
from specdecode.steps.run import Run
from specdecode.steps.runtime import Runtime
from specdecode.store import Store
from specdecode.untrusted import Unreadable

ACCOUNTING = Accounting("usage")
"""The pipeline's formula. `specdecode bench --accounting` chooses another."""


def publish(comparison: Comparison, levels: Sequence[AtLevel], run: Run, rt: Runtime) -> tuple[str, ...]:
    """Send the comparison's figures, and once those of each wave's requests. Returns in words what was not sent: it
    fails no run, and a resumed run sends it.
    """
    client = rt.clients("cloudwatch")
    problems = send(_of_requests(comparison, levels, run), namespace=names.METRIC_NAMESPACE, client=client)
    if not problems:
        waves = tuple(wave.index for wave in run.plan.waves)
        for run_id in filter(None, (run.state.run_id, run.state.resumed_from)):
            change_state(rt.store, run_id, published=waves)
    own = metric_data(comparison, previous=last_good(rt.store, comparison, before=run.state))
    problems += send(own, namespace=names.METRIC_NAMESPACE, client=client)
    if problems:
        logs.info("unpublished", problems=problems)
    return tuple(dict.fromkeys(problems))


def _of_requests(comparison: Comparison, levels: Sequence[AtLevel], run: Run) -> Iterator[Datum]:
    """Metrics of the requests of waves that no report has published before: all, unless the run was resumed."""
    before = {
        (arm.variant, wave.round) for wave in run.plan.waves if wave.index in run.state.published for arm in wave.arms
    }
    experiment = comparison.experiment
    if before:
        every = (record for at in levels for each in at.arms.values() for record in each.block.records)
        fresh = [record for record in every if (record.variant, record.round) not in before]
        levels = measure(experiment=experiment, records=fresh, context=comparison.context)
    labels = {case.name: case.label for case in experiment.workload.cases}
    for at in levels:
        for (variant, case), measured in at.arms.items():
            label = experiment.variant(variant).label
            place = places(experiment, variant=label, case=labels[case], level=at.level)
            yield from request_data(measured, accounting=ACCOUNTING, places=place)


LOOKED_AT = 500
"""Most states that are read: the report has minutes for this many (docs/reference/faults.md)."""
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
    """What must be equal so that two speed-ups can be compared: all but the engine, whose version may be the reason."""
    return (
        experiment.name,
        experiment.target,
        [experiment.serving_of(each) for each in experiment.variants],
        experiment.variants,
        experiment.workload,
    )


def _is_judged(comparison: Comparison) -> bool:
    return any(
        result.verdict not in (Verdict.CANNOT_TELL, Verdict.DISTRUST)
        for pair in comparison.pairs
        for result in pair.cases
    )
