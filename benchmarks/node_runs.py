"""How often a whole run says something wrong: in any of its verdicts, and in its recommendation.

    python benchmarks/node_runs.py [--runs 2000] [--write]

A run has so many arms beside its baseline. They go in turns to its nodes, which differ as in node_effects.py: 20
prompts, 3% noise in each arm. The rows of one node with four types of prompts have 8 prompts and 14% noise each.

- all arms as fast as the baseline: how often any verdict says "pays" or "costs", and how often the report recommends an
  arm; by itself means the rule before: any arm that pays by its own 95% interval;
- the same, and the recommended arm also pays in a second run: beside the baseline alone, on another node;
- one arm is 10% faster, all others are as fast as the baseline: how often that one is recommended, and how often
  another; and how often a second run as above says so too;
- the recommended arm's interval, among all arms: how often it holds the arm's true speed-up.

`--write` puts the figures into benchmarks/results/node_runs.json and the table into docs/explanation/how-sure.md.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Verdict
from specdecode.analysis.results.pair_result import Pair
from specdecode.analysis.statistics.pairs import assemble
from specdecode.analysis.texts.recommend import chosen, pays, pays_by_itself
from specdecode.measures.student import LogMean

from benchmarks.node_effects import FASTER, Nodes, gain
from benchmarks.publishing import measure_and_publish
from benchmarks.statistics_coverage import of_type
from tests.specdecode.analysis.simulate import experiment

BEGIN, END = "<!-- table of benchmarks/node_runs.py -->", "<!-- end of the table of runs -->"
SHARES = ("any_verdict", "recommended_by_itself", "recommended", "twice", "right", "another", "right_twice")
CALLED_DIFFERENT = (Verdict.PAYS, Verdict.COSTS)


def pairs(gains: Sequence[Sequence[LogMean]], nodes: LogMean | None) -> list[Pair]:
    """One pair for each arm, from its log speed-up in each type of prompts, as a report has them."""
    tested = experiment(ks=tuple(range(1, len(gains) + 1)))
    return [
        assemble(
            experiment=tested,
            base=tested.variant("base"),
            other=variant,
            results=[of_type(f"t{number}", stat, nodes) for number, stat in enumerate(own)],
            nodes=nodes,
        )
        for variant, own in zip(tested.variants[1:], gains, strict=True)
    ]


def one_run(
    rng: random.Random, speedups: Sequence[float], *, nodes: int, spread: float, share: float, types: int
) -> list[Pair]:
    """Arms of these true speed-ups, in turns on the nodes."""
    size = {"noise": 0.14, "prompts": 8} if types > 1 else {}
    there = [Nodes(rng, nodes=nodes, spread=spread, share=share, **size) for _ in range(types)]
    gains = [
        [gain(each.baseline[at % nodes], each.arm(at % nodes, speedup)) for each in there]
        for at, speedup in enumerate(speedups)
    ]
    return pairs(gains, there[0].shared)


def again(rng: random.Random, speedup: float, *, nodes: int, spread: float, share: float, types: int) -> bool:
    """Whether an arm pays in a run of its own, on a node that is none of the first run's."""
    (found,) = one_run(rng, [speedup], nodes=1, spread=spread, share=share, types=types)
    return pays(found)


def row(*, arms: int, runs: int, **place: Any) -> dict[str, float]:
    """Shares of runs."""
    rng, found = random.Random(f"{arms}/{place}"), Counter[str]()
    for _ in range(runs):
        equal = one_run(rng, [1.0] * arms, **place)
        found["any_verdict"] += any(case.verdict in CALLED_DIFFERENT for pair in equal for case in pair.cases)
        found["recommended_by_itself"] += any(pays_by_itself(pair) for pair in equal)
        if pays(chosen(equal)):
            found["recommended"] += 1
            found["twice"] += again(rng, 1.0, **place)
        best = rng.randrange(arms)
        truth = [FASTER if number == best else 1.0 for number in range(arms)]
        told = one_run(rng, truth, **place)
        if pays(said := chosen(told)):
            number = told.index(said)
            found["right" if number == best else "another"] += 1
            found["right_twice"] += number == best and again(rng, FASTER, **place)
            among = said.among
            found["held"] += bool(
                among
                and among.speedup.low
                and among.speedup.high
                and among.speedup.low <= truth[number] <= among.speedup.high
            )
    of_recommended = max(1, found["right"] + found["another"])
    return {name: found[name] / runs for name in SHARES} | {"held": found["held"] / of_recommended}


def measure(runs: int) -> dict[str, Any]:
    """All figures."""
    apart = ((0.05, 0.25), (0.05, 0.5))
    places: list[dict[str, Any]] = [{"nodes": 1, "spread": 0.0, "share": 0.25, "types": types} for types in (1, 4)]
    places += [
        {"nodes": nodes, "spread": spread, "share": share, "types": 1}
        for nodes in (1, 2, 4)
        for spread, share in (*(((0.0, 0.25), (0.02, 0.25)) if nodes > 1 else ()), *apart)
    ]
    asked = [place | {"arms": arms} for place in places for arms in (2, 8)]
    with ProcessPoolExecutor() as pool:
        return {"runs": runs, "rows": list(pool.map(partial(_asked, runs), asked))}


def _asked(runs: int, place: dict[str, Any]) -> dict[str, Any]:
    return place | row(runs=runs, **place)


def table(results: dict[str, Any]) -> str:
    """The figures as docs/explanation/how-sure.md prints them."""
    place = "| nodes | types | they differ by | arms by | arms |"
    equal = [
        f"{place} any verdict is wrong | recommended, each by itself | recommended, among all | and in a second run |",
        "|--:" * 9 + "|",
    ]
    faster = [
        f"{place} recommended, rightly | and in a second run | another recommended | its interval holds the truth |",
        "|--:" * 9 + "|",
    ]
    for each in results["rows"]:
        start = (
            f"| {each['nodes']} | {each['types']} | {each['spread']:.0%} | {each['spread'] * each['share']:.1%} "
            f"| {each['arms']} |"
        )
        for rows, names in (
            (equal, ("any_verdict", "recommended_by_itself", "recommended", "twice")),
            (faster, ("right", "right_twice", "another", "held")),
        ):
            rows.append(f"{start} {' | '.join(f'{each[name]:.1%}' for name in names)} |")
    return "\n".join(["All arms are as fast as the baseline:", "", *equal, "", "One arm is 10% faster:", "", *faster])


if __name__ == "__main__":
    measure_and_publish(name="node_runs", about=__doc__, runs=2000, measure=measure, table=table, begin=BEGIN, end=END)
