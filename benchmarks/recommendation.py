"""How often a whole run says something wrong: in any of its verdicts, and in its recommendation.

    python benchmarks/recommendation.py [--runs 2000] [--write]

A run has so many arms beside its baseline: 20 prompts, 3% noise in each arm; with four types of prompts 8 prompts and
14% noise each. "Arms by": the deviation of a log-normal factor that each arm has on this node alone. Truth is the arm's
speed-up on a node like all others.

- all arms as fast as the baseline: how often any verdict says "pays" or "costs", and how often the report recommends an
  arm; by itself means the rule before: any arm that pays by its own 95% interval;
- how often it recommends one without asking for another node;
- how often the recommended arm also pays in a second run: beside the baseline alone, on another node;
- one arm is faster by 10%, 20% or 40%, all others are as fast as the baseline: how often that one is recommended; and
  where it is 10%, how often without asking for another node, and how often another arm is recommended;
- the recommended arm's interval, among all arms: how often it holds the arm's true speed-up.

`--write` puts the figures into benchmarks/results/recommendation.json and the table into docs/reference/simulations.md.
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
from specdecode.analysis.results.pairs import Pair
from specdecode.analysis.statistics.pairs import assemble
from specdecode.analysis.texts.decide import of_all
from specdecode.experiment.model import Experiment
from specdecode.measures.student import LogMean, over_prompts

from benchmarks.publishing import measure_and_publish
from benchmarks.statistics_coverage import of_type
from tests.specdecode.analysis.simulate import experiment

NOISE, PROMPTS = 0.03, 20
NOISE_OF_TYPES, PROMPTS_OF_TYPES = 0.14, 8
FASTER = 1.1
GAINS = (FASTER, 1.2, 1.4)
EQUAL = ("any_verdict", "recommended_by_itself", "recommended", "not_asked", "twice")
BETTER = (*(f"right_{true:g}" for true in GAINS), "right_not_asked", "another")
CALLED_DIFFERENT = (Verdict.PAYS, Verdict.COSTS)


@cache
def _experiment(arms: int) -> Experiment:
    return experiment(ks=tuple(range(1, arms + 1)))


def pair(arms: int, number: int, gains: Sequence[LogMean]) -> Pair:
    """One of so many arms as a report has it, from its log speed-up in each type of prompts."""
    tested = _experiment(arms)
    return assemble(
        experiment=tested,
        base=tested.variant("base"),
        other=tested.variants[1 + number],
        results=[of_type(f"t{at}", stat) for at, stat in enumerate(gains)],
    )


def pairs(gains: Sequence[Sequence[LogMean]]) -> list[Pair]:
    """One pair for each arm."""
    return [pair(len(gains), number, own) for number, own in enumerate(gains)]


def drawn(rng: random.Random, *, arms: int, apart: float, types: int) -> list[list[LogMean]]:
    """Log speed-ups of arms that are as fast as the baseline: of each arm, one for each type of prompts."""
    noise, prompts = (NOISE_OF_TYPES, PROMPTS_OF_TYPES) if types > 1 else (NOISE, PROMPTS)

    def requests(centre: float) -> list[float]:
        return [centre + rng.gauss(0.0, noise) for _ in range(prompts)]

    base = [requests(0.0) for _ in range(types)]

    def gain(before: list[float]) -> LogMean:
        after = requests(rng.gauss(0.0, apart))
        return over_prompts([own - other for other, own in zip(before, after, strict=True)])

    return [[gain(before) for before in base] for _ in range(arms)]


def faster(gains: Sequence[LogMean], speedup: float) -> list[LogMean]:
    """The same arm, were it so many times as fast."""
    return [each._replace(mean=each.mean + math.log(speedup)) for each in gains]


def pays(found: Pair) -> bool:
    """Whether the report says so."""
    return of_all(found)[0] is Verdict.PAYS


def pays_by_itself(found: Pair) -> bool:
    """Whether it would, were the run's other arms no reason to ask for more."""
    whole = found.group("all")
    if whole is None or whole.headline is None or whole.verdict in (Verdict.NO_DIFFERENCE, Verdict.COSTS):
        return False
    return whole.headline.ratio > 1.0 and any(case.verdict is Verdict.PAYS for case in found.cases)


def chosen(among: Sequence[Pair]) -> Pair:
    """The pair that the report is about."""
    return max([each for each in among if pays(each)] or among, key=lambda each: each.over_all)


def again(rng: random.Random, **place: Any) -> bool:
    """Whether an arm that is as fast as the baseline pays in a run of its own, on another node."""
    (found,) = pairs(drawn(rng, **place | {"arms": 1}))
    return pays(found)


def row(*, arms: int, runs: int, **place: Any) -> dict[str, float]:
    """Shares of runs."""
    rng, found = random.Random(f"{arms}/{place}"), Counter[str]()
    for _ in range(runs):
        gains = drawn(rng, arms=arms, **place)
        equal = pairs(gains)
        found["any_verdict"] += any(case.verdict in CALLED_DIFFERENT for each in equal for case in each.cases)
        found["recommended_by_itself"] += any(map(pays_by_itself, equal))
        if pays(said := chosen(equal)):
            found["recommended"] += 1
            found["not_asked"] += not asks(said)
            found["twice"] += again(rng, **place)
        best = rng.randrange(arms)
        for true in GAINS:
            told = [*equal]
            told[best] = pair(arms, best, faster(gains[best], true))
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
    places = [{"types": 1, "apart": apart} for apart in (0.0, 0.01, 0.0125, 0.025)] + [{"types": 4, "apart": 0.0}]
    asked = [place | {"arms": arms} for place in places for arms in (2, 8)]
    with ProcessPoolExecutor() as pool:
        return {"runs": runs, "rows": list(pool.map(partial(_asked, runs), asked))}


def _asked(runs: int, place: dict[str, Any]) -> dict[str, Any]:
    return place | row(runs=runs, **place)


def table(results: dict[str, Any]) -> str:
    """The figures as docs/reference/simulations.md prints them: of eight arms."""
    place = "| types | arms by |"
    rights = [f"recommended rightly at {true - 1:.0%}" for true in GAINS]
    equal = [
        f"{place} any verdict is wrong | recommended, each by itself | recommended, among all | … and no other node "
        "asked for | … and in a second run |",
        "|--:" * 7 + "|",
    ]
    better = [
        f"{place} {' | '.join(rights)} | … at 10%, and no other node asked for | another recommended | its interval "
        "holds the truth |",
        "|--:" * 8 + "|",
    ]
    for each in (row for row in results["rows"] if row["arms"] == 8):
        for rows, names in ((equal, EQUAL), (better, (*BETTER, "held"))):
            figures = " | ".join(f"{each[name]:.1%}" for name in names)
            rows.append(f"| {each['types']} | {each['apart']:.1%} | {figures} |")
    return "\n".join(["All arms are as fast as the baseline:", "", *equal, "", "One arm is faster:", "", *better])


if __name__ == "__main__":
    measure_and_publish(name="recommendation", about=__doc__, runs=2000, measure=measure, table=table)
