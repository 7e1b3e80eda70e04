"""Results of earlier processes of the same run, so that an interrupted run continues and other rounds are kept."""

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
    """Number of processes that measured before."""
    began: float | None
    """Wall clock at the beginning of the first process. None if nothing was measured."""


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
