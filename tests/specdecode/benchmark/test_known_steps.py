"""From HTTP to the curve: servers whose step time is known have the crossover that follows from it."""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from specdecode.analysis.results.comparison import Comparison

from benchmarks.reference.steps import StepTime
from tests.specdecode.benchmark.reference import serving
from tests.specdecode.benchmark.virtual import World
from tests.specdecode.cli.calling import call

TOKENS, LEVELS = 64, (1, 4, 20)
BASE = StepTime(base_s=0.006, per_sequence_s=0.00006)
CROSSES = StepTime(base_s=0.008, per_sequence_s=0.0006, k=5, acceptance=0.55)
FASTER = StepTime(base_s=0.008, per_sequence_s=0.00006, k=5, acceptance=0.55)


def compared(world: World, folder: Path, other: StepTime) -> Comparison:
    """What `specdecode bench` says of the two servers at all levels."""
    levels = ",".join(map(str, LEVELS))
    with serving(world, steps=BASE) as base, serving(world, steps=other) as sd:
        given = ["--concurrency", levels, "--requests", "16", "--output-tokens", str(TOKENS), "--case", "repeat-line"]
        command = ["bench", f"base={base.url}", f"sd={sd.url}", *given, "--warmup", "0", "--out", str(folder / "out")]
        call(*command)
    return Comparison.model_validate_json((folder / "out" / "report.json").read_text())


def crossing(other: StepTime) -> float:
    """Requests under way at which an answer takes the same time on both, by bisection."""

    def slower(at: float) -> float:
        return other.request_s(at, TOKENS) - BASE.request_s(at, TOKENS)

    return zero(slower, LEVELS[0], LEVELS[-1])


def zero(function: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return low


@pytest.mark.slow
def test_the_crossover_of_two_servers_is_the_one_that_their_step_times_have(tmp_path: Path, world: World) -> None:
    found = compared(world, tmp_path, CROSSES).curve[0]
    true = crossing(CROSSES)
    assert 6 < true < 12
    (place,) = found.crossovers
    assert place.direction == "stops" and place.load == pytest.approx(true, rel=0.1)
    for point in found.points:
        at = point.level.value
        assert point.speedup.ratio == pytest.approx(
            BASE.request_s(at, TOKENS) / CROSSES.request_s(at, TOKENS), rel=0.05
        )
        ratio = CROSSES.step_s(at) / BASE.step_s(at)
        assert point.break_even == pytest.approx(ratio, rel=0.05) and point.acceptance_length is not None
        assert point.acceptance_length == pytest.approx(mean_yield(CROSSES), rel=0.05)


def mean_yield(steps: StepTime) -> float:
    """Tokens of a step after the first, by answer."""
    rng = random.Random(1)
    answers = [steps.sizes(TOKENS, rng)[1:] for _ in range(2_000)]
    return statistics.fmean(sum(sizes) / len(sizes) for sizes in answers)


def test_where_the_arm_is_faster_at_every_load_no_crossover_is_claimed(tmp_path: Path, world: World) -> None:
    comparison = compared(world, tmp_path, FASTER)
    assert comparison.curve[0].crossovers == ()
    assert re.match("sd is faster than base at every load|.*No crossover is shown up to 20", comparison.answer)
    assert all(point.speedup.ratio > 1.1 for point in comparison.curve[0].points)


def test_a_step_takes_its_time_and_yields_its_tokens(tmp_path: Path, world: World) -> None:
    """Of the server alone, by its own clock: chunks are a step apart, and steps of three requests take longer."""
    steps = StepTime(base_s=0.06, per_sequence_s=0.03, k=2, acceptance=1.0)
    with serving(world, steps=steps) as server:
        command = ["bench", f"base={server.url}", "--concurrency", "1,3", "--requests", "3", "--output-tokens", "13"]
        call(*command, "--case", "repeat-line", "--out", tmp_path / "out")
    sent = server.truth()
    for answer in sent:
        *sizes, last = answer["tokens"]
        assert sizes == [1, 3, 3, 3, 3, 3][: len(sizes)] and 1 <= last <= 3
    times = [answer["sent_s"] for answer in sent]
    gaps = [after - before for each in times for before, after in pairwise(each)]
    near = {size: sum(gap == pytest.approx(steps.step_s(size)) for gap in gaps) for size in (1, 2, 3)}
    assert near[1] > 8 and near[3] > 8 and sum(near.values()) == len(gaps), gaps
