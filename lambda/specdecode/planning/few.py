"""Whether each load has enough requests for an answer. The plan warns before the user pays for too few.

Nothing here refuses. The rules are those of the analysis: an interval is over prompts, a load's objective is a share of
its requests, and a rate is carried only if its requests were sent over most of the time (experiment/slo.py).
"""

from __future__ import annotations

import math

from specdecode.experiment.engine import Engine
from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.experiment.workload import SENT_OVER, Level
from specdecode.planning.cost import Range, request_seconds


def check_requests(experiment: Experiment) -> list[str]:
    """One line a rule, for both kinds of experiment."""
    return [*_no_interval(experiment), *_one_decides(experiment)]


def _no_interval(experiment: Experiment) -> list[str]:
    load = experiment.workload
    single = [case.name for case in load.cases if any(load.requests_of(case, level) < 2 for level in load.levels)]
    if not single:
        return []
    return [f"one request of {_some(single)}: no speed-up can be judged from one prompt, send two or more"]


def _one_decides(experiment: Experiment) -> list[str]:
    """Loads with so few requests that a single late one breaks the objective."""
    load, slo = experiment.workload, experiment.workload.slo
    if not slo.asked or slo.share == 1:
        return []
    needed = math.ceil(round(1 / (1 - slo.share), 6))
    sent = {
        level: experiment.rounds * sum(load.requests_of(case, level) for case in load.cases) for level in load.levels
    }
    few = [level for level, requests in sent.items() if requests < needed]
    if not few:
        return []
    return [
        f"workload.slo.share {slo.share:g} with {min(sent[level] for level in few)} requests of an arm at "
        f"{_some([str(level) for level in few])}: a single late request breaks the objective; send {needed} or more"
    ]


def check_bursts(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Rates whose requests are all sent before a queue could build up, by the engine's estimate of an answer."""
    load = experiment.workload
    short: dict[Level, tuple[Range, int]] = {}
    for level in load.levels:
        for case in load.cases if level.rate else ():
            takes = request_seconds(experiment, engine, case)
            needed = math.ceil(SENT_OVER / (1 - SENT_OVER) * (level.rate or 0) * takes.high)
            if load.requests_of(case, level) < needed and (level not in short or short[level][1] < needed):
                short[level] = takes, needed
    if not short:
        return []
    asked = ", ".join(f"{needed} at {level}" for level, (_, needed) in short.items())
    longest = max(takes.high for takes, _ in short.values())
    return [
        f"workload.rate {', '.join(f'{level.value:g}' for level in short)}: an answer may take {longest:.2g} s by the "
        "engine's estimate; the requests must last twice that, or nothing shows that the server carries the rate: "
        f"raise workload.requests to {asked}"
    ]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
