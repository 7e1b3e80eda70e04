"""How often a whole run says something wrong: in any of its verdicts, and in its recommendation.

    python benchmarks/node_runs.py [--runs 2000] [--write]

A run has so many arms beside its baseline. They go in turns to its nodes, which differ as in node_effects.py: 20
prompts, 3% noise in each arm. The rows of one node with four types of prompts have 8 prompts and 14% noise each.

- all arms as fast as the baseline: how often any verdict says "pays" or "costs", and how often the report recommends an
  arm; by itself means the rule before: any arm that pays by its own 95% interval;
- how often it recommends one without asking for another node, which only a run on one node does;
- how often the recommended arm also pays in a second run: beside the baseline alone, on another node;
- one arm is faster by 10%, 20% or 40%, all others are as fast as the baseline: how often that one is recommended; and
  where it is 10%, how often without asking for another node, and how often another arm is recommended;
- the recommended arm's interval, among all arms: how often it holds the arm's true speed-up.

`--write` puts the figures into benchmarks/results/node_runs.json and the table into docs/explanation/how-sure.md.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Verdict
from specdecode.analysis.results.pair_result import Pair
from specdecode.analysis.statistics.pairs import assemble
from specdecode.analysis.texts.recommend import chosen, pays, pays_by_itself
from specdecode.experiment.model import Experiment
from specdecode.measures.student import LogMean

from benchmarks.node_effects import FASTER, Nodes, gain
from benchmarks.publishing import measure_and_publish
from benchmarks.statistics_coverage import of_type
from tests.specdecode.analysis.simulate import experiment

GAINS = (FASTER, 1.2, 1.4)
EQUAL = ("any_verdict", "recommended_by_itself", "recommended", "not_asked", "twice")
BETTER = (*(f"right_{true:g}" for true in GAINS), "right_not_asked", "another")
CALLED_DIFFERENT = (Verdict.PAYS, Verdict.COSTS)


@cache
def _experiment(arms: int) -> Experiment:
    return experiment(ks=tuple(range(1, arms + 1)))


def pair(arms: int, number: int, gains: Sequence[LogMean], nodes: LogMean | None) -> Pair:
    """One of so many arms as a report has it, from its log speed-up in each type of prompts."""
    tested = _experiment(arms)
    return assemble(
        experiment=tested,
        base=tested.variant("base"),
        other=tested.variants[1 + number],
        results=[of_type(f"t{at}", stat, nodes) for at, stat in enumerate(gains)],
        nodes=nodes,
    )


def pairs(gains: Sequence[Sequence[LogMean]], nodes: LogMean | None) -> list[Pair]:
    """One pair for each arm."""
    return [pair(len(gains), number, own, nodes) for number, own in enumerate(gains)]


def drawn(
    rng: random.Random, *, arms: int, nodes: int, spread: float, share: float, types: int
) -> tuple[list[list[LogMean]], LogMean | None]:
    """Log speed-ups of arms that are as fast as the baseline, in turns on the nodes, and what the nodes add to them."""
    size: dict[str, Any] = {"noise": 0.14, "prompts": 8} if types > 1 else {}
    there = [Nodes(rng, nodes=nodes, spread=spread, share=share, **size) for _ in range(types)]
    gains = [[gain(each.baseline[at % nodes], each.arm(at % nodes, 1.0)) for each in there] for at in range(arms)]
    return gains, there[0].shared


def faster(gains: Sequence[LogMean], speedup: float) -> list[LogMean]:
    """The same arm, were it so many times as fast."""
    return [each._replace(mean=each.mean + math.log(speedup)) for each in gains]


def again(rng: random.Random, **place: Any) -> bool:
    """Whether an arm that is as fast as the baseline pays in a run of its own, on a node that is none of the first
    run's.
    """
    (found,) = pairs(*drawn(rng, **place | {"nodes": 1, "arms": 1}))
    return pays(found)


def row(*, arms: int, runs: int, **place: Any) -> dict[str, float]:
    """Shares of runs."""
    rng, found = random.Random(f"{arms}/{place}"), Counter[str]()
    for _ in range(runs):
        gains, nodes = drawn(rng, arms=arms, **place)
        equal = pairs(gains, nodes)
        found["any_verdict"] += any(case.verdict in CALLED_DIFFERENT for each in equal for case in each.cases)
        found["recommended_by_itself"] += any(map(pays_by_itself, equal))
        if pays(said := chosen(equal)):
            found["recommended"] += 1
            found["not_asked"] += not asks(said)
            found["twice"] += again(rng, **place)
        best = rng.randrange(arms)
        for true in GAINS:
            told = [*equal]
            told[best] = pair(arms, best, faster(gains[best], true), nodes)
            said = chosen(told)
            found[f"right_{true:g}"] += pays(said) and said is told[best]
            if true == FASTER and pays(said):
                found["right_not_asked"] += said is told[best] and not asks(said)
                found["another"] += said is not told[best]
                found["held"] += holds(said, true if said is told[best] else 1.0)
    of_recommended = max(1, found[f"right_{FASTER:g}"] + found["another"])
    return {name: found[name] / runs for name in (*EQUAL, *BETTER)} | {"held": found["held"] / of_recommended}


def asks(said: Pair) -> bool:
    """Whether the report asks for a run on another node before one relies on the arm."""
    return said.among is not None and not said.among.elsewhere


def holds(said: Pair, true: float) -> bool:
    """Whether the interval of the recommendation holds the arm's true speed-up."""
    found = said.among and said.among.speedup
    return bool(found and found.low and found.high and found.low <= true <= found.high)


def measure(runs: int) -> dict[str, Any]:
    """All figures."""
    alike, apart, far = (0.0, 0.0), ((0.02, 0.5), (0.05, 0.0), (0.05, 0.25), (0.05, 0.5)), (0.1, 0.5)
    places: list[dict[str, Any]] = [
        {"nodes": nodes, "spread": spread, "share": share, "types": types}
        for nodes, types, differ in (
            (1, 1, (alike, *apart)),
            (1, 4, (alike,)),
            (2, 1, (alike, *apart, far)),
            (4, 1, (alike, *apart, far)),
        )
        for spread, share in differ
    ]
    asked = [place | {"arms": arms} for place in places for arms in (2, 8)]
    with ProcessPoolExecutor() as pool:
        return {"runs": runs, "rows": list(pool.map(partial(_asked, runs), asked))}


def _asked(runs: int, place: dict[str, Any]) -> dict[str, Any]:
    return place | row(runs=runs, **place)


def _shown(each: dict[str, Any]) -> bool:
    """Whether the page has a row: eight arms, on one node and on two. The file of results has all rows."""
    return bool(each["arms"] == 8 and each["nodes"] <= 2)


def table(results: dict[str, Any]) -> str:
    """The figures as docs/explanation/how-sure.md prints them."""
    place = "| nodes | types | they differ by | arms by |"
    rights = [f"recommended rightly at {true - 1:.0%}" for true in GAINS]
    equal = [
        f"{place} any verdict is wrong | recommended, each by itself | recommended, among all | … and no other node "
        "asked for | … and in a second run |",
        "|--:" * 9 + "|",
    ]
    better = [
        f"{place} {' | '.join(rights)} | … at 10%, and no other node asked for | another recommended | its interval "
        "holds the truth |",
        "|--:" * 10 + "|",
    ]
    for each in filter(_shown, results["rows"]):
        start = f"| {each['nodes']} | {each['types']} | {each['spread']:.0%} | {each['spread'] * each['share']:.1%} |"
        for rows, names in ((equal, EQUAL), (better, (*BETTER, "held"))):
            rows.append(f"{start} {' | '.join(f'{each[name]:.1%}' for name in names)} |")
    return "\n".join(["All arms are as fast as the baseline:", "", *equal, "", "One arm is faster:", "", *better])


if __name__ == "__main__":
    measure_and_publish(name="node_runs", about=__doc__, runs=2000, measure=measure, table=table)
