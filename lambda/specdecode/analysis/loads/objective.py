"""Load that each arm carries within the service-level objective, over the cases that all arms have at a load."""

import math
from collections.abc import Sequence
from itertools import takewhile

from specdecode.analysis.results.over_load import GoodAtLoad, Objective
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.statistics.pairing import brackets
from specdecode.experiment.model import Experiment
from specdecode.experiment.workload import SENT_OVER, Level, Slo
from specdecode.measures.arm import Measured
from specdecode.measures.metrics.formulas import good_requests
from specdecode.measures.plausibility import doubtful


def objectives(*, experiment: Experiment, levels: Sequence[AtLevel]) -> tuple[Objective, ...]:
    """One result for each arm that was measured. Empty if there is no objective."""
    slo, found = experiment.workload.slo, []
    for variant in experiment.variants if slo.asked else ():
        loads = [
            _at(at.level, [_of_all(at, case, at.arms[variant.name, case]) for case in cases])
            for at in sorted(levels, key=lambda each: each.level.value)
            if (cases := cases_of_all(at)) and (variant.name, cases[0]) in at.arms
        ]
        kept = [at.level for at in takewhile(lambda at: at.share >= slo.share and at.enough, loads)]
        if loads:
            found.append(Objective(variant=variant.name, loads=tuple(loads), keeps=kept[-1] if kept else None))
    return tuple(found)


def cases_of_all(at: AtLevel) -> list[str]:
    """The cases that every arm measured at a load was measured in."""
    arms = {arm for arm, _ in at.arms}
    return [case for case in dict.fromkeys(case for _, case in at.arms) if all((arm, case) in at.arms for arm in arms)]


def _of_all(at: AtLevel, case: str, own: Measured) -> Measured:
    """An arm in the rounds that every arm was measured in; in all of its own if there is none, or if it was measured
    before each other arm and once more after it.
    """
    arms = [each for (_, name), each in at.arms.items() if name == case]
    if len(arms) > 1 and all(brackets(own, each) for each in arms if each is not own):
        return own
    return own.within(set.intersection(*({record.round for record in each.block.records} for each in arms)))


def _at(level: Level, cases: Sequence[Measured]) -> GoodAtLoad:
    seconds = math.fsum(each.block.sending_s or each.arm.load_seconds for each in cases)
    good = sum(good_requests(each.block) for each in cases)
    return GoodAtLoad(
        level=level,
        requests=sum(each.arm.requests for each in cases),
        good=good,
        goodput=good / seconds if seconds > 0 else None,
        enough=all(
            each.block.sending_s is None or each.block.sending_s >= SENT_OVER * each.arm.load_seconds for each in cases
        ),
        doubtful=doubtful([record for each in cases for record in each.block.records]),
    )


def limits(slo: Slo) -> str:
    """`TTFT at most 500 ms, TPOT at most 20 ms, for 95% of the requests`."""
    asked = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("end-to-end latency", slo.e2e_s))
    times = ((name, f"{s * 1000:g} ms" if s < 1 else f"{s:g} s") for name, s in asked if s is not None)
    return f"{', '.join(f'{name} at most {time}' for name, time in times)}, for {100 * slo.share:g}% of the requests"


def carried(found: Objective) -> str:
    """`base carries 16 at a time (100% good, 34 a second)`; `sd does not keep it at 1 at a time (62% good)`."""
    kept = _kept(found)
    beyond = found.loads[kept] if kept < len(found.loads) else None
    why = (
        "" if beyond is None or beyond.enough else "too few requests to tell: answers came long after the last was sent"
    )
    late = doubted(found)
    doubt = f"; the load generator was late in some of its requests at {listed(late)}" if late else ""
    if found.keeps is None and beyond is not None:
        said = "is not shown to keep it" if why else "does not keep it"
        return f"{found.variant} {said} at {beyond.level} ({_figures(beyond)}{f'; {why}' if why else ''}){doubt}"
    at = found.loads[kept - 1]
    open_end = f"; not shown at {beyond.level} ({why})" if beyond and why else ""
    return f"{found.variant} carries {at.level} ({_figures(at)}){open_end}{doubt}"


def doubted(found: Objective) -> list[Level]:
    """Doubtful loads among those that tell what the arm carries: up to the first that it does not keep."""
    return [each.level for each in found.loads[: _kept(found) + 1] if each.doubtful]


def _kept(found: Objective) -> int:
    """The number of loads that are kept."""
    return [each.level for each in found.loads].index(found.keeps) + 1 if found.keeps else 0


def listed(levels: Sequence[Level]) -> str:
    """`1, 2, 4 at a time`."""
    *others, last = levels
    return ", ".join([*(f"{level.value:g}" for level in others), str(last)])


def _figures(at: GoodAtLoad) -> str:
    pace = f", {at.goodput:.3g} good a second" if at.goodput is not None and at.good else ""
    return f"{100 * at.share:.0f}% good{pace}"
