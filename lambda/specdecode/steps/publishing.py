"""What a report sends to CloudWatch: the comparison's figures, and once the figures of its requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdecode import names
from specdecode.analysis import AtLevel, Comparison, measure
from specdecode.analysis.datums import metric_data
from specdecode.measures.accounting import Accounting
from specdecode.measures.publish import Datum, places
from specdecode.measures.publish import metric_data as request_data
from specdecode.measures.publish import publish as send
from specdecode.runs.state import change_state
from specdecode.steps import logs
from specdecode.steps.previous import last_good
from specdecode.steps.run import Run
from specdecode.steps.runtime import Runtime

ACCOUNTING = Accounting("usage")
"""The pipeline's formula. `specdecode bench --accounting` chooses another."""


def publish(comparison: Comparison, levels: Sequence[AtLevel], run: Run, rt: Runtime) -> tuple[str, ...]:
    """Send the comparison's figures, and once those of each wave's requests. Returns what went wrong, in words.

    A figure that was not sent fails no run: a resumed run sends it.
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
