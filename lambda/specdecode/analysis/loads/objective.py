"""Load that each arm carries within the service-level objective, over all its cases."""

import math
from collections.abc import Sequence

from specdecode.analysis.results.over_load import GoodAtLoad, Objective
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.experiment.model import Experiment
from specdecode.experiment.workload import SENT_OVER, Level, Slo
from specdecode.measures.arm import Measured
from specdecode.measures.metrics.formulas import good_requests
from specdecode.measures.plausibility import doubtful


def objectives(*, experiment: Experiment, levels: Sequence[AtLevel]) -> tuple[Objective, ...]:
    """One result for each arm that was measured. Empty if there is no objective."""
    if not experiment.workload.slo.asked:
        return ()
    found = []
    for variant in experiment.variants:
        loads = [
            _at(at.level, own)
            for at in sorted(levels, key=lambda each: each.level.value)
            if (own := [each for (name, _), each in at.arms.items() if name == variant.name])
        ]
        if loads:
            keeps = _keeps(loads, experiment.workload.slo.share)
            found.append(Objective(variant=variant.name, loads=tuple(loads), keeps=keeps))
    return tuple(found)


def _at(level: Level, cases: Sequence[Measured]) -> GoodAtLoad:
    seconds = math.fsum(each.arm.load_seconds for each in cases)
    good = sum(good_requests(each.block) for each in cases)
    requests = sum(each.arm.requests for each in cases)
    goodput = good / seconds if seconds > 0 else None
    enough = all(_enough(level, requests=each.arm.requests, seconds=each.arm.load_seconds) for each in cases)
    late = doubtful([record for each in cases for record in each.block.records])
    return GoodAtLoad(level=level, requests=requests, good=good, goodput=goodput, enough=enough, doubtful=late)


def _enough(level: Level, *, requests: int, seconds: float) -> bool:
    return level.rate is None or requests / level.rate >= SENT_OVER * seconds


def _keeps(loads: Sequence[GoodAtLoad], share: float) -> Level | None:
    kept = None
    for each in loads:
        if each.share < share or not each.enough:
            break
        kept = each.level
    return kept


def limits(slo: Slo) -> str:
    """`TTFT at most 500 ms, TPOT at most 20 ms, for 95% of the requests`."""
    asked = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("end-to-end latency", slo.e2e_s))
    parts = [f"{name} at most {_time(seconds)}" for name, seconds in asked if seconds is not None]
    return f"{', '.join(parts)}, for {100 * slo.share:g}% of the requests"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"


def carried(found: Objective) -> str:
    """`base carries 16 at a time (100% good, 34 a second)`; `sd does not keep it at 1 at a time (62% good)`."""
    kept = [each.level for each in found.loads].index(found.keeps) + 1 if found.keeps else 0
    beyond = found.loads[kept] if kept < len(found.loads) else None
    why = "too few requests to tell: answers came long after the last was sent"
    if found.keeps is None and beyond is not None:
        said = (
            f"{found.variant} does not keep it at" if beyond.enough else f"{found.variant} is not shown to keep it at"
        )
        return f"{said} {beyond.level} ({_figures(beyond)}{'' if beyond.enough else f'; {why}'}){_doubt(found)}"
    at = found.loads[kept - 1]
    doubt = f"; not shown at {beyond.level} ({why})" if beyond is not None and not beyond.enough else ""
    return f"{found.variant} carries {at.level} ({_figures(at)}){doubt}{_doubt(found)}"


def doubted(found: Objective) -> list[Level]:
    """Doubtful loads among those that tell what the arm carries: up to the first that it does not keep."""
    kept = [each.level for each in found.loads].index(found.keeps) + 1 if found.keeps else 0
    return [each.level for each in found.loads[: kept + 1] if each.doubtful]


def _doubt(found: Objective) -> str:
    loads = doubted(found)
    return f"; the load generator was late in some of its requests at {listed(loads)}" if loads else ""


def listed(levels: Sequence[Level]) -> str:
    """`1, 2, 4 at a time`."""
    *others, last = levels
    return ", ".join([*(f"{level.value:g}" for level in others), str(last)])


def _figures(at: GoodAtLoad) -> str:
    pace = f", {at.goodput:.3g} good a second" if at.goodput is not None and at.good else ""
    return f"{100 * at.share:.0f}% good{pace}"
