"""How often intervals and verdicts are right on a machine that drifts, on simulated runs whose truth is known.

    python benchmarks/statistics_drift.py [--runs 2000] [--write]

Two arms take turns at one request at a time, A B B A …, as the benchmark sends them, and swap their device groups from
round to round. A request takes 5 s, and its time has 3% of noise of its own. Besides that the machine drifts, for both
arms alike: an Ornstein-Uhlenbeck process (standard deviation, seconds until it forgets), a line over the whole run,
answers that stall (four times as long), or one device group that is slower.

Equal arms: how often the 95% interval of a prompt type holds 1, a type has a wrong verdict, and the run recommends an
arm. A gain that differs by 7% between prompts: how often the interval holds its mean, and how often it is found.

The figures come from the functions that a comparison uses. Of the rows in CHECKED some runs are also written as records
and handed to `compare` whole: intervals and verdicts must be the same, and an arm is recommended only where the row
counts it (the recommendation asks for more).

`--write` puts the figures into benchmarks/results/statistics_drift.json and the table into
docs/reference/simulations.md.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specdecode.analysis import Verdict, compare
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.analysis.statistics.groups import among_arms
from specdecode.analysis.statistics.shared_noise import Rounds, Seen, shared_noise
from specdecode.analysis.statistics.verdict import estimate, judge
from specdecode.analysis.texts.decide import decided
from specdecode.experiment.workload import PromptKind, TestCase
from specdecode.measures.student import LogMean, over_prompts, with_shared
from specdecode.records import RequestRecord

from benchmarks.publishing import measure_and_publish
from tests.specdecode.analysis.simulate import context, experiment, request

REQUEST_S, BETWEEN_ROUNDS_S = 5.0, 120.0
NOISE, SPREAD, STALL = 0.03, 0.07, math.log(4.0)
GAINS = (1.1, 1.2)
DEFAULT = (9, 8, 2)
"""Prompt types, prompts and rounds of a rehearsal. Gains are looked for at this size."""
SHAPES = (
    *((9, 8, rounds) for rounds in (1, 2, 3)),
    *((3, 8, 2), (13, 8, 2), (9, 4, 2), (9, 20, 2)),
    *((3, 4, 1), (13, 20, 1)),
)
"""Sizes at which every machine is tried."""

CHECKED = (
    ("independent noise", DEFAULT),
    ("drift 10%, 10 s", DEFAULT),
    ("drift 10%, 600 s", DEFAULT),
    ("a line, 20%", (9, 8, 1)),
    ("2% of answers stall", (9, 8, 3)),
    ("one group 5% slower", (3, 8, 2)),
    ("drift 10%, 60 s", (9, 20, 2)),
    ("drift 5%, 60 s", (13, 4, 3)),
)
"""Machines and sizes whose runs are handed to `compare` too."""


class Machine(NamedTuple):
    """What the machine does besides the noise of each request."""

    name: str
    drift: float = 0.0
    forgets_s: float = 60.0
    line: float = 0.0
    stalls: float = 0.0
    group: float = 0.0


MACHINES = (
    Machine("independent noise"),
    *(Machine(f"drift {sd:.0%}, {s:g} s", sd, s) for sd in (0.02, 0.05, 0.1) for s in (10.0, 60.0, 600.0)),
    Machine("a line, 20%", line=0.2),
    Machine("2% of answers stall", stalls=0.02),
    Machine("one group 5% slower", group=0.05),
)
SLOW = {"independent noise", "drift 2%, 600 s", "drift 5%, 600 s", "drift 10%, 600 s", "a line, 20%"}
"""Quiet, or drift that is slower than a case takes (80 s)."""


def speeds(machine: Machine, requests: int, rng: random.Random) -> Iterator[float]:
    """Log speed of the machine at each request, with the pause between rounds taken by whoever calls for `None`."""
    state, keeps = rng.gauss(0.0, machine.drift), math.exp(-REQUEST_S / machine.forgets_s)
    step = machine.drift * math.sqrt(1.0 - keeps**2)
    for number in range(requests):
        state = keeps * state + rng.gauss(0.0, step) if machine.drift else 0.0
        yield state + machine.line * number / requests


Run = dict[str, dict[int, dict[int, tuple[float, float]]]]
"""Case -> round -> prompt -> log speed of the baseline and of the arm."""


def a_run(machine: Machine, *, types: int, prompts: int, rounds: int, spread: float, rng: random.Random) -> Run:
    """Equal arms, but for gains that differ by `spread` between prompts."""
    gains = [[rng.gauss(0.0, spread) for _ in range(prompts)] for _ in range(types)]
    pause = round(BETWEEN_ROUNDS_S / REQUEST_S)
    at = speeds(machine, rounds * (2 * types * prompts + pause), rng)
    found: Run = {f"t{number}": {} for number in range(types)}
    for number in range(rounds):
        for case in range(types):
            values: dict[int, tuple[float, float]] = {}
            for prompt in range(prompts):
                first = (case + prompt) % 2  # which arm is first: A B, B A
                both = [0.0, 0.0]
                for arm in (first, 1 - first):
                    stalled = STALL if rng.random() < machine.stalls else 0.0
                    both[arm] = next(at) + rng.gauss(0.0, NOISE) - stalled
                group = machine.group * (-0.5 if number % 2 else 0.5)
                values[prompt] = both[0] - group, both[1] + group + gains[case][prompt]
            found[f"t{case}"][number] = values
        for _ in range(pause):
            next(at)
    return found


def stats(run: Run, rounds: int) -> list[LogMean]:
    """Each case's log speed-up, as a comparison of two arms computes it."""
    cases: dict[str, Rounds] = {
        name: {number: {at: Seen(at, own - base) for at, (base, own) in seen.items()} for number, seen in each.items()}
        for name, each in run.items()
    }
    weights = {number: 1.0 / (rounds // 2 + (rounds % 2 if number % 2 == 0 else 0)) for number in range(rounds)}
    noise = shared_noise(cases, weights=weights, swapped=rounds > 1)
    total = sum(weights.values())
    found = []
    for name, seen in cases.items():
        prompts = [sum(weights[n] * each[p].difference for n, each in seen.items()) / total for p in seen[0]]
        found.append(with_shared(over_prompts(prompts), noise[name]))
    return found


TEMPLATE = request(variant="sd", case="t", index=0, rng=random.Random(1), tokens=2)


def records(run: Run) -> Iterator[RequestRecord]:
    """What the benchmark writes of the run."""
    for case, rounds in run.items():
        for number, seen in rounds.items():
            for prompt, both in seen.items():
                for variant, speed in zip(("base", "sd"), both, strict=True):
                    told = {"variant": variant, "case": case, "round": number, "index": prompt, "portion": prompt}
                    yield TEMPLATE.model_copy(update={**told, "end_s": REQUEST_S * math.exp(-speed)})


def differs(run: Run, rounds: int) -> bool:
    """Whether `compare` says anything else of the run than `stats` does."""
    prompts = len(run["t0"][0])
    cases = tuple(TestCase(name=t, label=t, kind=PromptKind.LINE, text="a", structured=True) for t in run)
    held = tuple(
        DeviceGroup(variant=name, round=number, devices=(str((number + at) % 2),))
        for number in range(rounds)
        for at, name in enumerate(("base", "sd"))
    )
    found = compare(
        experiment=experiment(requests=prompts, rounds=rounds, cases=cases),
        records=records(run),
        context=context(device_groups=held),
    )
    own, whole = stats(run, rounds), found.pairs[0].among
    among = among_arms(own, arms=1)
    same = among is not None and whole is not None and whole.faster is among.faster
    same &= decided(found).serve != "sd" or (whole is not None and whole.faster)
    for stat, case in zip(own, found.pairs[0].cases, strict=True):
        said = estimate("", stat, method="")
        same &= case.headline is not None and case.verdict is judge(said).verdict
        for ours, theirs in zip((said.low, said.high), (case.headline.low, case.headline.high), strict=True):
            same &= ours is not None and theirs is not None and math.isclose(ours, theirs, rel_tol=1e-9)
    return not same


def row(machine: Machine, *, types: int, prompts: int, rounds: int, runs: int) -> dict[str, Any]:
    """Shares of types and of runs."""
    counts: Counter[str] = Counter()
    default = (types, prompts, rounds) == DEFAULT
    for equal in (True, False) if default else (True,):
        rng = random.Random(f"{machine.name}/{types}/{prompts}/{rounds}/{equal}")
        shape = {"types": types, "prompts": prompts, "rounds": rounds, "spread": 0.0 if equal else SPREAD}
        for _ in range(runs):
            found = stats(a_run(machine, rng=rng, **shape), rounds)
            for stat in found:
                interval = stat.interval()
                assert interval is not None
                counts["held" if equal else "held, gain"] += interval[0] <= 1.0 <= interval[1]
                if equal:
                    counts["wrong"] += judge(estimate("", stat, method="")).verdict in (Verdict.PAYS, Verdict.COSTS)
                    continue
                for gain in GAINS:
                    faster = stat._replace(mean=stat.mean + math.log(gain))
                    counts[f"found {gain}"] += judge(estimate("", faster, method="")).verdict is Verdict.PAYS
            if equal:
                among = among_arms(found, arms=1)
                counts["headline"] += among is not None and among.faster
    names = ("held", "wrong", *(("held, gain", "found 1.1", "found 1.2") if default else ()))
    return {
        "machine": machine.name,
        "types": types,
        "prompts": prompts,
        "rounds": rounds,
        "slow": machine.name in SLOW,
        **{name: counts[name] / runs / types for name in names},
        "headline": counts["headline"] / runs,
    }


def measure(runs: int) -> dict[str, Any]:
    checked = {}
    for name, at in CHECKED:
        machine = next(each for each in MACHINES if each.name == name)
        types, prompts, rounds = at
        rng = random.Random(f"checked/{name}/{at}")
        drawn = (a_run(machine, types=types, prompts=prompts, rounds=rounds, spread=0.0, rng=rng) for _ in range(200))
        checked[f"{name}, {types} types, {prompts} prompts, {rounds} rounds"] = sum(
            differs(run, rounds) for run in drawn
        )
    return {
        "runs": runs,
        "differs_from_compare_in_200": checked,
        "rows": [
            row(machine, types=types, prompts=prompts, rounds=rounds, runs=runs)
            for types, prompts, rounds in SHAPES
            for machine in MACHINES
            if rounds > 1 or not machine.group
        ],
    }


def tables(results: dict[str, Any]) -> str:
    """The rows of the default size; the worst of all rows last."""
    names = ("held", "held, gain", "wrong", "headline", "found 1.1", "found 1.2")
    lines = ["| machine | interval holds 1 | … a gain | type wrong | run wrong | 1.1× found | 1.2× found |"]
    lines += ["|---|" + "--:|" * len(names)]
    shown = [each for each in results["rows"] if (each["types"], each["prompts"], each["rounds"]) == DEFAULT]
    worst = {
        name: (min if name.startswith("held") else max)(each[name] for each in results["rows"] if name in each)
        for name in names[:4]
    }
    lines += [f"| {each['machine']} | " + " | ".join(f"{each[name]:.1%}" for name in names) + " |" for each in shown]
    lines += [
        f"| the worst of {len(results['rows'])} rows | " + " | ".join(f"{worst[n]:.1%}" for n in names[:4]) + " | | |"
    ]
    same = results["differs_from_compare_in_200"]
    lines += [
        "",
        f"Of 200 runs each of {len(same)} rows, `compare` itself says something else in {sum(same.values())}.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    measure_and_publish(name="statistics_drift", about=__doc__, runs=2000, measure=measure, table=tables)
