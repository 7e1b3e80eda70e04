"""How often a measurement that ends early says something wrong, and what it saves, on simulated runs.

    python benchmarks/early_stop.py [--runs 2000] [--write]

Each run is measured twice from the same values: to the end, and with tests that may end it. The tests and the rule are
the benchmark's own (`specdecode.measures.observations`).
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Verdict
from specdecode.analysis.results.pairs import Estimate
from specdecode.analysis.statistics.verdict import estimate, judge, judge_loss
from specdecode.measures.observations import RELEVANT, Asked, difference, interim_counts, settled
from specdecode.measures.student import LogMean

from benchmarks.publishing import measure_and_publish

FEWEST, MOST, STEP, PRECISION = 8, 50, 8, 0.03
"""`requests: {min: 8, max: 50, precision: 0.03}`, four requests at a time."""
TRUTHS = (1.0, 1.02, 1.05, 1.1, 1.3, 1.5, 2.5)
NOISES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda rng: max(0.05, rng.gauss(1.0, 0.1)),
    "skewed": lambda rng: 0.8 + 0.3 * rng.expovariate(1.0),
    "heavy tail": lambda rng: rng.lognormvariate(0.0, 0.1) * (4.0 if rng.random() < 0.02 else 1.0),
}
MIXED = "0.8 to 2.8"
COPIES = {"one in 10 copies: 3×": (0.1, 3.0), "one in 20 copies: 6×": (0.05, 6.0)}
"""Share of the prompts that gain much, and how much. The others lose 8%."""


def ended(base: Sequence[float], other: Sequence[float]) -> LogMean:
    """What a measurement of these ln(tokens/s), in this order, comes to when it may end early."""
    for count in interim_counts(FEWEST, MOST, STEP):
        found = difference(prompts(base[:count]), prompts(other[:count]))
        assert found is not None
        if count == MOST:
            return found._replace(early=False)
        if settled(found, PRECISION):
            return found
    raise AssertionError("the last test is at the most")


def prompts(logs: Sequence[float]) -> dict[Asked, float]:
    """As the benchmark knows them: prompts of one turn each."""
    return {Asked(index, 0): value for index, value in enumerate(logs)}


def judged(stat: LogMean, *, ends_early: bool) -> tuple[Estimate, str]:
    """Interval and verdict as a comparison has them; `ends_early`: of a measurement that could have ended early."""
    found = estimate("", stat, method="")
    said = judge(found)
    if ends_early and said.verdict is Verdict.COSTS:
        found, said = judge_loss(found)
    return found, said.verdict.value


def wrong(said: str, true: float) -> bool:
    """Whether a verdict says what is not so."""
    alike = 1 / RELEVANT < true < RELEVANT
    return (
        (said == "pays" and true <= 1)
        or (said == "costs" and true >= 1)
        or (said == "no relevant difference" and not alike)
    )


def drawn(noise: str, true: float | str, runs: int) -> Iterator[tuple[float, list[float], list[float]]]:
    """The true speed-up of a run, and ln(tokens/s) of both arms."""
    rng = random.Random(f"{noise}/{true}")
    if noise in COPIES:
        share, much = COPIES[noise]
        truth = math.exp(share * math.log(much) + (1.0 - share) * math.log(0.92))
        for _ in range(runs):
            base = [rng.gauss(0.0, 0.03) for _ in range(MOST)]
            yield truth, base, [math.log(much if rng.random() < share else 0.92) + rng.gauss(0.0, 0.03) for _ in base]
        return
    draw = NOISES[noise]
    for _ in range(runs):
        truth = math.exp(rng.uniform(math.log(0.8), math.log(2.8))) if isinstance(true, str) else true
        prompts = [rng.gauss(0.0, 0.3) for _ in range(MOST)]
        base = [prompt - math.log(draw(rng)) for prompt in prompts]
        yield truth, base, [prompt + math.log(truth) - math.log(draw(rng)) for prompt in prompts]


def row(noise: str, true: float | str, runs: int) -> dict[str, Any]:
    """Shares of the runs, and the median of the requests. `lost`: it cannot tell what all requests tell rightly."""
    errors, covered, same, lost, counts = 0, 0, 0, 0, []
    for truth, base, other in drawn(noise, true, runs):
        stat = ended(base, other)
        whole = difference(prompts(base), prompts(other))
        assert whole is not None
        found, said = judged(stat, ends_early=True)
        _, at_the_end = judged(whole._replace(early=False), ends_early=False)
        assert found.low is not None and found.high is not None
        errors += wrong(said, truth)
        covered += found.low <= truth <= found.high
        same += said == at_the_end
        lost += said == "cannot tell" != at_the_end and not wrong(at_the_end, truth)
        counts.append(stat.n)
    return {
        "noise": noise,
        "true": true,
        "wrong": errors / runs,
        "covered": covered / runs,
        "same": same / runs,
        "lost": lost / runs,
        "median": statistics.median(counts) / MOST,
        "mean": statistics.fmean(counts) / MOST,
    }


def measure(runs: int) -> dict[str, Any]:
    rows = [row(noise, true, runs) for noise in NOISES for true in (*TRUTHS, MIXED)]
    return {"runs": runs, "rows": [*rows, *(row(noise, "see left", runs) for noise in COPIES)]}


def table(results: dict[str, Any]) -> str:
    """The figures as docs/reference/simulations.md prints them."""
    rows = [
        "| noise | true speed-up | wrong verdict | interval holds the truth | same verdict as with all "
        "| requests sent (median) | (mean) |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {each['noise']} | {each['true']}{'' if isinstance(each['true'], str) else '×'} | {each['wrong']:.1%} "
        f"| {each['covered']:.1%} | {each['same']:.1%} "
        f"| {each['median']:.0%} | {each['mean']:.0%} |"
        for each in results["rows"]
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    measure_and_publish(name="early_stop", about=__doc__, runs=2000, measure=measure, table=table)
