"""What processes before this one have measured: a run that was cut short goes on, and keeps other rounds."""

from __future__ import annotations

from dataclasses import dataclass

from specdecode.benchmark.enough import Enough
from specdecode.benchmark.results import Results, measured_indices
from specdecode.experiment.benchmark_spec import BenchmarkSpec

Measured = dict[tuple[str, str], dict[str, set[int]]]
"""Variant and case -> level -> indices of the requests of this round."""


@dataclass(frozen=True, kw_only=True)
class Earlier:
    measured: Measured
    session: int
    """By how many processes."""
    began: float | None
    """Wall clock at the first one's beginning; None: nothing was measured."""


def earlier(results: Results, spec: BenchmarkSpec, enough: Enough) -> Earlier:
    """Read the records of all clients; `enough` takes note of them. Raises BadResults."""
    measured: Measured = {}
    session, began = 0, None
    levels = [level.name for level in spec.workload.levels]
    for arm in spec.arms:
        for case in spec.workload.cases:
            found = [
                record for client in range(spec.most_clients) for record in results.load(arm.variant, case.name, client)
            ]
            measured[arm.variant, case.name] = measured_indices(found, round_=spec.round, levels=levels)
            for record in found:
                enough.add(record)
                session = max(session, record.session + 1)
                at = record.started_at - record.sent_s
                began = at if began is None else min(began, at)
    return Earlier(measured=measured, session=session, began=began)
