"""How often the comparison's intervals and verdicts are right, on simulated runs whose truth is known.

    python benchmarks/statistics_coverage.py [--runs 2000] [--write]

- a kind of prompts: types are drawn with a spread between them, requests with noise within; how often the interval
  holds the mean over all types of the kind, and how often the range for the next type holds one more type's speed-up;
- prompts of one category whose acceptance has a heavy tail: how often the interval over 20 of them holds the mean over
  all prompts of the category, and how often Student's t alone would.

One prompt type, its verdicts and what the machine does to them: statistics_drift.py; other noises: early_stop.py.

`--write` puts the figures into benchmarks/results/statistics_coverage.json and the tables into
docs/reference/simulations.md.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis.results.pairs import Equality
from specdecode.analysis.statistics.groups import MIN_TYPES, group
from specdecode.analysis.statistics.pairs import case_result
from specdecode.experiment.workload import PromptKind, TestCase
from specdecode.measures.arm import measure_arm
from specdecode.measures.student import LogMean, log_mean, over_prompts

from benchmarks.publishing import measure_and_publish
from tests.specdecode.analysis.simulate import request

PROMPT_SPREAD = 0.3
"""Standard deviation of the logarithm of what a prompt takes, common to both arms."""
TYPES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda rng: rng.gauss(0.0, 1.0),
    "uniform": lambda rng: rng.uniform(-math.sqrt(3), math.sqrt(3)),
    "skewed": lambda rng: rng.expovariate(1.0) - 1.0,
    "skewed down": lambda rng: 1.0 - rng.expovariate(1.0),
    "one in five": lambda rng: 2.0 if rng.random() < 0.2 else -0.5,
}
"""What a prompt type's log speed-up differs from the kind's mean by, in units of the spread; mean 0, deviation 1."""
SPREADS = (0.0, 0.1, 0.3)
K, STEP = 7, 1.35
"""Drafted tokens of a step, and what such a step takes in base steps."""


def tokens_of_a_step(acceptance: float) -> float:
    """(1 - a^(k+1)) / (1 - a), Leviathan et al. 2023, formula 1."""
    return (1.0 - acceptance ** (K + 1)) / (1.0 - acceptance) if acceptance < 1.0 else K + 1.0


def _copies(rng: random.Random, share: float) -> float:
    return 0.95 if rng.random() < share else rng.betavariate(4.0, 6.0)


PROMPTS: dict[str, Callable[[random.Random], float]] = {
    "log-normal, deviation 1": lambda rng: 1.0 + min(K, 0.8 * rng.lognormvariate(0.0, 1.0)),
    "Pareto 1.5, few gain": lambda rng: 1.0 + min(K, 0.5 * (rng.paretovariate(1.5) - 1.0)),
    "Pareto 1.5, many gain": lambda rng: 1.0 + min(K, 1.5 * (rng.paretovariate(1.5) - 1.0)),
    "beta (1, 3) of a draft token": lambda rng: tokens_of_a_step(rng.betavariate(1.0, 3.0)),
    "beta (1/2, 1/2), all or nothing": lambda rng: tokens_of_a_step(rng.betavariate(0.5, 0.5)),
    "one prompt in five copies": lambda rng: tokens_of_a_step(_copies(rng, 0.2)),
    "one prompt in ten copies": lambda rng: tokens_of_a_step(_copies(rng, 0.1)),
}
"""Tokens that a step yields for one prompt of a category: few prompts gain a multiple of what most do."""
TRUE = 1.5
SAME = Equality(compared=0, identical=0, expected=False, first=None)


def of_pairs(numerator: Sequence[float], denominator: Sequence[float]) -> LogMean:
    """ln(numerator/denominator) of pairs that met the same prompt, as a comparison of two arms computes it."""
    return over_prompts([math.log(a / b) for a, b in zip(numerator, denominator, strict=True)])


def over_category(*, shape: str, noise: float, prompts: int, runs: int) -> dict[str, float]:
    """Shares of intervals over prompts that hold the category's mean, and how much wider they are than Student's t."""
    draw, truth = PROMPTS[shape], random.Random(shape)
    true = math.exp(math.fsum(math.log(draw(truth) / STEP) for _ in range(200_000)) / 200_000)
    rng, found = random.Random(f"{shape}/{noise}/{prompts}"), Counter[str]()
    wider = 0.0
    for _ in range(runs):
        gains = [draw(rng) / STEP for _ in range(prompts)]
        base = [rng.lognormvariate(0.0, PROMPT_SPREAD) for _ in gains]
        fast = [each / gain * rng.lognormvariate(0.0, noise) for each, gain in zip(base, gains, strict=True)]
        stat = of_pairs(base, fast)
        (low, high), (t_low, t_high) = (each.interval() or (1.0, 1.0) for each in (stat, stat._replace(skew=0.0)))
        found["interval"] += low <= true <= high
        found["t"] += t_low <= true <= t_high
        wider += math.log(high / low) / math.log(t_high / t_low) / runs
    return {"true": true, "interval": found["interval"] / runs, "t": found["t"] / runs, "wider": wider}


ARM = measure_arm([request(variant="sd", case="repeat", index=0, rng=random.Random(1), tokens=3)]).arm


def of_type(name: str, stat: LogMean) -> Any:
    """A prompt type's result, with this log speed-up."""
    case = TestCase(name=name, label=name, kind=PromptKind.LINE, text="a", structured=True)
    stats = {"request_output_throughput": stat}
    found = case_result(
        case=case,
        base=ARM,
        other=ARM,
        stats=stats,
        method="t",
        same=SAME,
        distinct_prompts=8,
        notes=(),
    )
    return found, stats


def over_types(*, types: int, spread: float, shape: str, centre: float, runs: int) -> dict[str, float]:
    """Shares: the interval contains the kind's mean, the range contains a new type, and each verdict of the kind."""
    rng, counts = random.Random(f"{types}/{spread}/{shape}/{centre}"), Counter[str]()
    for _ in range(runs):
        drawn = [math.log(centre) + spread * TYPES[shape](rng) for _ in range(types)]
        results = [
            of_type(f"t{at}", log_mean([mean + rng.gauss(0.0, 0.14) for _ in range(8)]))
            for at, mean in enumerate(drawn)
        ]
        found = group("structured", results)
        assert found is not None and found.headline is not None
        counts[found.verdict.value] += 1
        if found.next is not None and found.headline.low is not None and found.headline.high is not None:
            counts["mean"] += found.headline.low <= centre <= found.headline.high
            new = math.exp(math.log(centre) + spread * TYPES[shape](rng))
            counts["next"] += found.next[0] <= new <= found.next[1]
    return {name: count / runs for name, count in counts.items()}


def measure(runs: int) -> dict[str, Any]:
    return {
        "runs": runs,
        "prompts": [
            {"shape": shape, "noise": noise, **over_category(shape=shape, noise=noise, prompts=20, runs=runs)}
            for shape in PROMPTS
            for noise in (0.03, 0.14)
        ],
        "types": [
            {
                "types": types,
                "spread": spread,
                "shape": shape,
                **over_types(types=types, spread=spread, shape=shape, centre=TRUE, runs=runs),
            }
            for shape in TYPES
            for types in (5, 10, 20)
            for spread in (SPREADS if shape == "normal" else SPREADS[1:])
        ],
        "same_kinds": [
            {
                "types": types,
                "spread": spread,
                "verdicts": over_types(types=types, spread=spread, shape="normal", centre=1.0, runs=runs),
            }
            for types in (2, 4, 5, 10)
            for spread in (SPREADS[:2] if types >= MIN_TYPES else SPREADS[:1])
        ],
    }


def _pivot(rows: Iterable[dict[str, Any]], by: tuple[str, ...], cells: Callable[[dict[str, Any]], str]) -> list[str]:
    """One line of a Markdown table for all rows that are equal in `by`."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        lines.setdefault(tuple(str(row[name]) for name in by), []).append(cells(row))
    return [f"| {' | '.join([*head, *found])} |" for head, found in lines.items()]


def tables(results: dict[str, Any]) -> str:
    """The figures as docs/reference/simulations.md prints them."""
    rows = [
        "| tokens of a step, over a category's prompts | true speed-up | noise 3%: 20 prompts | Student's t | wider "
        "| 14%: 20 prompts | Student's t | wider |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rows += _pivot(
        [{**row, "true": f"{row['true']:.2f}×"} for row in results["prompts"]],
        ("shape", "true"),
        lambda row: f"{row['interval']:.1%} | {row['t']:.1%} | {row['wider']:.2f}×",
    )
    rows += [
        "",
        "| spread between types | types | deviation 10%: the kind's mean | one more type "
        "| 30%: the kind's mean | one more type | 0%: the kind's mean | one more type |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    last = sorted(results["types"], key=lambda row: row["spread"] == 0)
    rows += _pivot(last, ("shape", "types"), lambda row: f"{row['mean']:.1%} | {row['next']:.1%}")
    names = ["pays", "costs", "no relevant difference", "cannot tell", "mixed"]
    rows += ["", f"| types | deviation | {' | '.join(names)} |", "|--:|--:|--:|--:|--:|--:|--:|"]
    rows += [
        f"| {row['types']} | {row['spread']:.0%} | "
        + " | ".join(f"{row['verdicts'].get(name, 0.0):.1%}" for name in names)
        + " |"
        for row in results["same_kinds"]
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    measure_and_publish(name="statistics_coverage", about=__doc__, runs=2000, measure=measure, table=tables)
