"""What the measured steps of an adaptive sweep show, each by itself."""

from __future__ import annotations

from collections.abc import Collection

from specdecode.analysis import Comparison, compare
from specdecode.steps.report import read_records, run_context
from specdecode.steps.run import Run, read_servers
from specdecode.steps.runtime import Runtime


def comparisons(run: Run, steps: Collection[int], rt: Runtime) -> dict[int, Comparison]:
    """Of each of `steps`, of its own rounds: its arm against the baseline that served beside it."""
    if not steps:
        return {}
    records = list(read_records(rt.store, run.state.run_id))
    context = run_context(run.plan, run.state, rt, read_servers(rt.store, run.state.run_id))
    rounds = run.plan.experiment.rounds
    return {
        step: compare(
            experiment=run.plan.experiment,
            records=[record for record in records if record.round // rounds == step],
            context=context,
        )
        for step in steps
    }
