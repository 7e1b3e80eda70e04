"""Whether the intervals and verdicts hold what they promise, on simulated runs whose truth is known.

    python benchmarks/statistics_coverage.py [--runs 2000] [--json]

Coverage: how often the 95% interval of a speed-up contains the true one (1.5), at n = 8 and 50 requests, with normal,
strongly skewed (shifted exponential) and heavy-tailed timing noise (one request in fifty stalls), paired by prompt and
unpaired.
Verdicts: how often runs without any true difference get "no difference shown", through the whole of `compare`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Verdict, compare
from specdecode.analysis.statistics import paired_log_ratio, welch_log_ratio

from tests.specdecode.analysis.simulate import context, experiment, request

TRUE = 1.5
NOISES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda rng: max(0.05, rng.gauss(1.0, 0.1)),
    "skewed": lambda rng: 0.8 + 0.3 * rng.expovariate(1.0),
    "heavy tail": lambda rng: rng.lognormvariate(0.0, 0.1) * (4.0 if rng.random() < 0.02 else 1.0),
}
PROMPT_SPREAD = 0.3
"""Standard deviation of the logarithm of what a prompt takes, common to both arms."""


def coverage(*, n: int, noise: str, paired: bool, runs: int) -> float:
    """Share of intervals that contain the true ratio of the geometric means."""
    draw, covered = NOISES[noise], 0
    rng = random.Random(f"{n}/{noise}/{paired}")
    estimate = paired_log_ratio if paired else welch_log_ratio
    for _ in range(runs):
        base_prompts = [rng.lognormvariate(0.0, PROMPT_SPREAD) for _ in range(n)]
        fast_prompts = base_prompts if paired else [rng.lognormvariate(0.0, PROMPT_SPREAD) for _ in range(n)]
        base = [TRUE * prompt * draw(rng) for prompt in base_prompts]
        fast = [prompt * draw(rng) for prompt in fast_prompts]
        low, high = estimate(base, fast).interval() or (math.inf, -math.inf)
        covered += low <= TRUE <= high
    return covered / runs


def null_verdicts(*, n: int, noise: str, runs: int) -> dict[str, float]:
    """Share of each verdict over runs in which both arms are the same."""
    tested = experiment(requests=n)
    tested = tested.model_copy(
        update={"workload": tested.workload.model_copy(update={"cases": tested.workload.cases[:1]})}
    )
    rng = random.Random(f"null/{n}/{noise}")
    counts: Counter[Verdict] = Counter()
    for _ in range(runs):
        prompts = [rng.lognormvariate(0.0, PROMPT_SPREAD) for _ in range(n)]
        records = [
            request(
                variant=variant,
                case="repeat",
                index=index,
                rng=rng,
                tokens=3,
                noise=0.0,
                slow=prompts[index] * NOISES[noise](rng),
            )
            for variant in ("base", "sd")
            for index in range(n)
        ]
        comparison = compare(experiment=tested, records=records, context=context())
        counts[comparison.pairs[0].cases[0].verdict] += 1
    return {verdict.value: counts[verdict] / runs for verdict in Verdict if counts[verdict]}


def measure(runs: int) -> dict[str, Any]:
    """All figures."""
    return {
        "runs": runs,
        "coverage": [
            {"n": n, "noise": noise, "paired": paired, "coverage": coverage(n=n, noise=noise, paired=paired, runs=runs)}
            for noise in NOISES
            for n in (8, 50)
            for paired in (True, False)
        ],
        "no_true_difference": [
            {"n": n, "noise": noise, "verdicts": null_verdicts(n=n, noise=noise, runs=runs)}
            for noise in NOISES
            for n in (8, 50)
        ],
    }


def table(results: dict[str, Any]) -> str:
    """The figures as docs/metrics.md prints them."""
    rows = ["| noise | n | paired by prompt | unpaired | `no difference shown` |", "|---|--:|--:|--:|--:|"]
    for number, row in enumerate(results["no_true_difference"]):
        pair, welch = results["coverage"][2 * number : 2 * number + 2]
        none = row["verdicts"][Verdict.NO_DIFFERENCE.value]
        rows.append(f"| {row['noise']} | {row['n']} | {pair['coverage']:.1%} | {welch['coverage']:.1%} | {none:.1%} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = measure(given.runs)
    print(json.dumps(results, indent=1) if given.json else table(results))


if __name__ == "__main__":
    main()
