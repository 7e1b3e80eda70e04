"""How often the crossover and the schedule of a run at several loads are right, on servers whose step time is known.

    python benchmarks/load_curve.py [--runs 300] [--write]

Each run simulates an engine with continuous batching whose step takes `a + b * running` seconds, for every arm at six
loads, and hands the records to `compare` as the benchmark would.

- a crossover at about 14 requests: how often it is within 10% of the true one, and how often its interval holds it;
- none (the arm is faster at every load, slower at every load, or the same at all): how often one is claimed;
- three arms (k = 0, 2 and 6): how often the schedule is at most 2% slower than the best arm at every load, and how
  often a k that it calls the fastest is not;
- the same where all requests of an arm at a load share noise, with one round and with two;
- an engine that pads a batch to a compiled size: how often the interval holds the true one, which is such a size, and
  how often the schedule speculates at a size that was not measured and loses more than 2% there.

`--write` puts the figures into benchmarks/results/load_curve.json and the tables into docs/reference/simulations.md.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Comparison, compare
from specdecode.analysis.loads.crossing import AtLoad, Gains, crossings, level_noise
from specdecode.analysis.loads.k_by_load import Choice
from specdecode.analysis.loads.k_by_load import table as table_of
from specdecode.analysis.results.over_load import Crossover
from specdecode.measures.student import LogMean

from benchmarks.publishing import measure_and_publish
from tests.specdecode.analysis.simulate import context
from tests.specdecode.analysis.simulate_load import Server, loads, run, true_crossover, true_gain

LEVELS = (1, 2, 4, 8, 16, 32)
FEW = (1, 8, 32)
SIZES = (1, 8, 16, 32)
"""Compiled batch sizes of an engine that pads."""
REQUESTS = 64
BASE = Server()
CROSSING = Server(base_s=0.026, per_sequence_s=0.0016, k=5, acceptance=0.55)
NONE = {
    "faster at every load": Server(base_s=0.026, per_sequence_s=0.00026, k=5, acceptance=0.55),
    "just faster at the largest": Server(base_s=0.026, per_sequence_s=0.00065, k=5, acceptance=0.55),
    "slower at every load": Server(base_s=0.060, per_sequence_s=0.0006, k=5, acceptance=0.55),
    "the same arm twice": BASE,
}
SEVERAL = {
    2: Server(base_s=0.023, per_sequence_s=0.0012, k=2, acceptance=0.8),
    6: Server(base_s=0.027, per_sequence_s=0.0030, k=6, acceptance=0.8),
}


TRUTH = true_crossover(BASE, CROSSING)
LARGE = 16
NOISY = [
    *((levels, rounds, at, at) for levels in (LEVELS, FEW) for rounds in (1, 2) for at in (0.0, 0.02, 0.05)),
    *((LEVELS, rounds, 0.005, at) for at in (0.05, 0.1) for rounds in (1, 2)),
]
"""Loads, rounds, and the noise that all requests of an arm at a load share: below LARGE requests, and from there on."""
PROMPTS, OF_PROMPTS = 64, 0.15
"""Prompts of a level, and how much their log speed-ups vary by."""


def simulated(seed: int, arms: dict[int, Server]) -> Comparison:
    """A run of the base and of an arm for each k."""
    tested = loads(LEVELS, ks=tuple(arms), requests=REQUESTS)
    names = ["sd"] if len(arms) == 1 else [f"sd-k{k}" for k in arms]
    servers = {"base": BASE, **dict(zip(names, arms.values(), strict=True))}
    return compare(experiment=tested, records=run(tested, servers, seed=seed), context=context())


def measure(runs: int) -> dict[str, Any]:
    found = [simulated(seed, {5: CROSSING}).curve[0].crossovers for seed in range(runs)]
    claimed = {
        name: sum(bool(simulated(seed, {5: arm}).curve[0].crossovers) for seed in range(runs)) / runs
        for name, arm in NONE.items()
    }
    several = [simulated(seed, SEVERAL) for seed in range(runs)]
    lost = [lost_by_schedule(each) for each in several]
    called = [called_the_fastest(each) for each in several]
    return {
        "runs": runs,
        "requests": REQUESTS,
        "levels": list(LEVELS),
        "true_crossover": TRUTH,
        **near(found),
        "claimed_without": claimed,
        "schedule_within_2_percent": sum(each <= 0.02 for each in lost) / runs,
        "schedule_worst": max(lost),
        "called_the_fastest": sum(any(each) for each in called) / runs,
        "wrongly_called": sum(not all(each) for each in called) / runs,
        "noisy": [noisy(runs, *row) for row in NOISY],
        "compiled": {f"{noise:.0%}": compiled(runs, noise) for noise in (0.0, 0.02, 0.05)},
    }


def compiled(runs: int, noise: float) -> dict[str, float]:
    """Of arms on an engine that pads a batch to the next of SIZES: the gain jumps after 8 requests at a time."""
    found = [drawn(random.Random(seed), CROSSING, LEVELS, 2, noise, noise, pads=True) for seed in range(runs)]
    single = [each[0][0] for each in found if len(each[0]) == 1]
    lost = {size for size in range(1, SIZES[-1] + 1) if true_gain(BASE, CROSSING, padded(size)) < 0.98} - {*LEVELS}
    served = [
        table_of(
            [Choice(load=load, gains={0: 0.0, 5: gain.mean}) for load, gain in zip(LEVELS, gains, strict=True)], 32
        )
        for *_, gains in found
    ]
    return {
        "found": len(single) / runs,
        "held": sum(each.low <= 8.0 < 9.0 <= each.high for each in single) / max(1, len(single)),
        "loses": sum(any(k and lost & {*range(first, last + 1)} for first, last, k in own) for own in served) / runs,
    }


def _choice(load: int, gain: LogMean) -> Choice:
    interval = gain.interval()
    return Choice(
        load=load, gains={0: 0.0, 5: gain.mean}, pays=frozenset({5} if interval and interval[0] > 1.0 else ())
    )


def padded(load: int) -> int:
    """The batch that the engine computes."""
    return next(size for size in SIZES if size >= load)


def noisy(runs: int, levels: tuple[int, ...], rounds: int, small: float, large: float) -> dict[str, Any]:
    """Equal arms, and arms with a crossover, where all requests of an arm at a load in a round share noise.

    From the gains on, without requests.
    """
    place = (levels, rounds, small, large)
    equal = [drawn(random.Random(seed), BASE, *place)[:2] for seed in range(runs)]
    crossing = [drawn(random.Random(seed), CROSSING, *place)[0] for seed in range(runs)]
    return {
        "levels": list(levels),
        "rounds": rounds,
        "shared": small,
        "shared_at_large": large,
        "claimed_of_equal_arms": sum(bool(found) for found, _ in equal) / runs,
        "claimed_without_this_noise": sum(bool(found) for _, found in equal) / runs,
        **near(crossing),
    }


def drawn(
    rng: random.Random,
    arm: Server,
    levels: tuple[int, ...],
    rounds: int,
    small: float,
    large: float,
    *,
    pads: bool = False,
) -> tuple[tuple[Crossover, ...], tuple[Crossover, ...], list[LogMean]]:
    """The crossovers of gains that are drawn: each level's own noise, and that of its prompts, whose error is known.
    Then those that there would be if the intervals did not have the shared noise; and the gains with it.
    """
    measured = []
    for load in levels:
        mean, error = math.log(true_gain(BASE, arm, padded(load) if pads else load)), OF_PROMPTS / math.sqrt(PROMPTS)
        own, shared = mean + rng.gauss(0.0, error), large if load >= LARGE else small
        of_rounds = [own + rng.gauss(0.0, math.sqrt(2.0) * shared) for _ in range(rounds)]
        variance = error**2 * rng.gammavariate((PROMPTS - 1) / 2.0, 2.0) / (PROMPTS - 1)
        gain = LogMean(sum(of_rounds) / rounds, variance, PROMPTS - 1.0, PROMPTS)
        measured.append((Gains(load, of_rounds), gain))
    noise = level_noise([gains for gains, _ in measured])

    def found(gains: Sequence[LogMean]) -> tuple[Crossover, ...]:
        return tuple(
            crossings(
                [
                    AtLoad(load=load, base_load=load, base_s=BASE.step_s(load), gain=gain)
                    for load, gain in zip(levels, gains, strict=True)
                ]
            )
        )

    alone = [gain for _, gain in measured]
    whole = [noise.added(gain, rounds) for gain in alone]
    return found(whole), found(alone), whole


def near(found: Sequence[tuple[Crossover, ...]]) -> dict[str, float]:
    """How often one crossover is found, is near the true one, and holds it in its interval."""
    single = [each[0] for each in found if len(each) == 1]
    return {
        "found": len(single) / len(found),
        "within_10_percent": sum(abs(each.load / TRUTH - 1.0) <= 0.1 for each in single) / len(found),
        "mean_error": sum(each.load / TRUTH - 1.0 for each in single) / max(len(single), 1),
        "covered": sum(each.low <= TRUTH <= each.high for each in single) / len(found),
    }


def lost_by_schedule(comparison: Comparison) -> float:
    """How much slower than the best arm the schedule is at most, over the levels."""
    (schedule,) = comparison.schedule
    lost = []
    for level in LEVELS:
        of_k = {k: true_gain(BASE, arm, level) for k, arm in {0: BASE, **SEVERAL}.items()}
        (own,) = [each for each in schedule.ranges if each.first <= level <= each.last]
        lost.append(max(of_k.values()) / of_k[own.k] - 1.0)
    return max(lost)


def called_the_fastest(comparison: Comparison) -> list[bool]:
    """Of each k that is called the fastest, whether it is so at every measured load of its range."""
    (schedule,) = comparison.schedule
    return [
        all(
            max(gains, key=lambda k: gains[k]) == own.k
            for level in LEVELS
            if own.first <= level <= own.last
            for gains in [{k: true_gain(BASE, arm, level) for k, arm in {0: BASE, **SEVERAL}.items()}]
        )
        for own in schedule.ranges
        if own.rivals == ()
    ]


def table(results: dict[str, Any]) -> str:
    """The figures as docs/reference/simulations.md prints them."""
    rows = [
        f"| of {results['runs']} simulated runs, {results['requests']} requests and more at each load | share |",
        "|---|--:|",
        f"| crossover at {results['true_crossover']:.1f}: one is found | {results['found']:.1%} |",
        f"| … within 10% of the true one | {results['within_10_percent']:.1%} |",
        f"| … its 95% interval holds the true one | {results['covered']:.1%} |",
    ]
    rows += [
        f"| no crossover, {name}: one is claimed | {share:.1%} |" for name, share in results["claimed_without"].items()
    ]
    rows.append(
        f"| schedule of k = 0, 2 and 6: at most 2% slower than the best arm at every load "
        f"| {results['schedule_within_2_percent']:.1%} |"
    )
    rows += [
        f"| … some k is called the fastest of its range | {results['called_the_fastest']:.1%} |",
        f"| … and is not, at some load of the range | {results['wrongly_called']:.1%} |",
    ]
    head = (
        "shared noise | loads | rounds | equal arms: one is claimed | … without this noise in the intervals "
        "| crossover: one is found | within 10% | held"
    )
    names = ("claimed_of_equal_arms", "claimed_without_this_noise", "found", "within_10_percent", "covered")
    rows += ["", f"| {head} |", f"|{'--:|' * 8}"]
    for row in results["noisy"]:
        figures = [row[name] for name in names]
        small, large = row["shared"], row["shared_at_large"]
        at = f"{small:.0%}" if small == large else f"{small:.1%}, from {LARGE} on {large:.0%}"
        cells = [at, str(len(row["levels"])), str(row["rounds"]), *map("{:.1%}".format, figures)]
        rows.append(f"| {' | '.join(cells)} |")
    rows += ["", "| an engine that pads a batch to 1, 8, 16 or 32; shared noise | one is found | held, of those "]
    rows[-1] += "| the schedule loses 2% at a size that was not measured |"
    rows += ["|--:|--:|--:|--:|"]
    rows += [
        f"| {noise} | {row['found']:.1%} | {row['held']:.1%} | {row['loses']:.1%} |"
        for noise, row in results["compiled"].items()
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    measure_and_publish(name="load_curve", about=__doc__, runs=300, measure=measure, table=table)
