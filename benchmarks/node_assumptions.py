"""What an interval of several nodes could assume of arms that differ from node to node, and what each costs.

    python benchmarks/node_assumptions.py [--runs 2000] [--write]

Eight arms go in turns to nodes that differ as in node_effects.py. Each rule gets the same requests. Shares of arms: a
verdict of two equal arms is wrong ("pays" or "costs"); an arm that is 10% or 20% faster pays, by itself and at the
level of one among eight arms; two equal arms are shown to make no relevant difference.

- nothing: the interval of the prompts alone;
- a third: of the deviation between nodes, of 2.5% at least, with ten degrees of freedom (the rule before);
- half: of 5%, which counts as ten degrees of freedom and gives way to what the nodes show (the rule as it is,
  specdecode/analysis/statistics/node_noise.py);
- the whole: of the same;
- a second arm: what its speed-up varies by over the nodes, all of which measure it too, with n - 1 degrees of freedom;
- both: half of 5% as ten degrees of freedom, which gives way to what the second arm shows.

`--write` puts the figures into benchmarks/results/node_assumptions.json and the table into
docs/explanation/how-sure.md.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis.statistics.among_arms import confidence
from specdecode.analysis.statistics.node_noise import DIFFER, SHARE, between
from specdecode.measures.distribution import mean, stddev
from specdecode.measures.observations import RELEVANT
from specdecode.measures.student import ASSUMED_DF, LogMean, with_shared

from benchmarks.node_effects import ARMS, FASTER, Nodes, gain
from benchmarks.publishing import measure_and_publish

GAINS = (FASTER, 1.2)
Rule = Callable[[Sequence[float], Sequence[float]], LogMean | None]
"""Noise to add to a speed-up, from the mean log of the baseline and the speed-up of a second arm on each node."""


def _second(baseline: Sequence[float], second: Sequence[float]) -> LogMean:
    return LogMean(0.0, stddev(second) ** 2, len(second) - 1.0, 0)


def _both(baseline: Sequence[float], second: Sequence[float]) -> LogMean:
    shown = _second(baseline, second)
    df = ASSUMED_DF + shown.df
    return LogMean(0.0, (ASSUMED_DF * (SHARE * DIFFER) ** 2 + shown.df * shown.variance) / df, df, 0)


RULES: Mapping[str, Rule] = {
    "nothing": lambda baseline, second: None,
    "a third": lambda baseline, second: LogMean(0.0, (max(0.025, stddev(baseline)) / 3.0) ** 2, ASSUMED_DF, 0),
    "half": lambda baseline, second: between(baseline),
    "the whole": lambda baseline, second: between(baseline)._replace(variance=between(baseline).variance / SHARE**2),
    "a second arm": _second,
    "both": _both,
}


def row(runs: int, place: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One place, rule by rule."""
    rng, counts = random.Random(f"{place}"), {name: Counter[str]() for name in RULES}
    for _ in range(runs):
        there = Nodes(rng, **place)
        logs = [mean(own) for own in there.baseline]
        second = [gain(own, there.arm(node, 1.0)).mean for node, own in enumerate(there.baseline)]
        for number in range(ARMS):
            node = number % place["nodes"]
            own = gain(there.baseline[node], there.arm(node, 1.0))
            for name, rule in RULES.items():
                noise = rule(logs, second)
                counts[name].update(_told(with_shared(own, noise) if noise else own))
    return [
        {**place, "rule": name, **{told: found[told] / runs / ARMS for told in COLUMNS}}
        for name, found in counts.items()
    ]


COLUMNS = {
    "wrong": "wrong",
    "no_difference": "no relevant difference",
    **{f"pays_{true:g}": f"{true - 1:.0%} faster: pays" for true in GAINS},
    **{f"among_{true:g}": f"… as one of {ARMS}" for true in GAINS},
}


def _told(equal: LogMean) -> list[str]:
    """What is said of an arm that is as fast as the baseline, and would be if it were faster."""
    low, high = equal.interval() or (0.0, math.inf)
    among, _ = equal.interval(confidence(ARMS)) or (0.0, math.inf)
    found = ["wrong"] if low > 1.0 or high < 1.0 else []
    found += ["no_difference"] if low > 1.0 / RELEVANT and high < RELEVANT else []
    found += [f"pays_{true:g}" for true in GAINS if low * true > 1.0]
    return found + [f"among_{true:g}" for true in GAINS if among * true > 1.0]


def measure(runs: int) -> dict[str, Any]:
    """All figures."""
    places = [
        {"nodes": nodes, "spread": spread, "share": share}
        for nodes in (2, 4)
        for spread, share in ((0.0, 0.0), (0.05, 0.25), (0.05, 0.5), (0.1, 0.5))
    ]
    with ProcessPoolExecutor() as pool:
        return {"runs": runs, "rows": [each for rows in pool.map(partial(row, runs), places) for each in rows]}


def _shown(each: Mapping[str, Any]) -> bool:
    """Whether the page has a row: two nodes that are alike, and two that differ by 5%, arms by half of it. The file of
    results has all rows.
    """
    return each["nodes"] == 2 and (each["spread"], each["share"]) in ((0.0, 0.0), (0.05, 0.5))


def table(results: Mapping[str, Any]) -> str:
    """The figures as docs/explanation/how-sure.md prints them."""
    order = ("wrong", "no_difference", *(f"{what}_{true:g}" for true in GAINS for what in ("pays", "among")))
    rows = [
        f"| nodes | they differ by | arms by | assumed | {' | '.join(COLUMNS[name] for name in order)} |",
        "|--:|--:|--:|---|" + "--:|" * len(order),
    ]
    rows += [
        f"| {each['nodes']} | {each['spread']:.0%} | {each['spread'] * each['share']:.1%} | {each['rule']} "
        f"| {' | '.join(f'{each[name]:.1%}' for name in order)} |"
        for each in filter(_shown, results["rows"])
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    measure_and_publish(name="node_assumptions", about=__doc__, runs=2000, measure=measure, table=table)
