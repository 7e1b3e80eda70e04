"""The advisor knows the load: k for each, and the compile that is worth most on average over them."""

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.advice.sweep import advise_sweep, k_by_load, next_step, observations
from specdecode.analysis.report import write_report
from specdecode.experiment.model import Experiment, Sweep
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.workload import Level
from specdecode.records import RequestRecord
from specdecode.speculation.advisor import WORTH, advise, advise_over_loads
from specdecode.speculation.belief import Candidate, Observation

from tests.specdecode.analysis.simulate import context
from tests.specdecode.analysis.simulate_load import Server, loads, run, true_gain
from tests.specdecode.cli.calling import call

BASE = Server()
KS = {2: Server(base_s=0.023, per_sequence_s=0.0009, k=2, acceptance=0.8),
      6: Server(base_s=0.027, per_sequence_s=0.0030, k=6, acceptance=0.8)}  # fmt: skip
LEVELS = (1, 8, 64)


def asked(levels: tuple[int, ...] = LEVELS, ks: tuple[int, ...] = (2, 6)) -> Experiment:
    return loads(levels, ks=ks, requests=32)


def of(experiment: Experiment, records: Iterable[RequestRecord]) -> Comparison:
    return compare(experiment=experiment, records=records, context=context())


def records(experiment: Experiment) -> Iterable[RequestRecord]:
    arms = {"base": BASE} | {
        v.name: KS[v.speculation.num_speculative_tokens] for v in experiment.variants if v.speculation
    }
    return run(experiment, arms, seed=1)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    experiment = asked()
    return of(experiment, records(experiment))


def test_each_load_has_its_own_best_k(comparison: Comparison) -> None:
    advice = advise_sweep(comparison.experiment, [comparison])
    for level, own in advice.levels:
        gains = {k: true_gain(BASE, server, level.value) for k, server in KS.items()}
        top = max(gains, key=lambda k: gains[k])
        assert (own.best.k if own.best else None) == (top if gains[top] > 1 else None), level
    assert [own.best and own.best.k for _, own in advice.levels] == [6, 2, None], "or this shows nothing"
    assert k_by_load(advice) == (
        "Best measured by load: k=6 (Qwen/Qwen3-1.7B) at 1 at a time; k=2 (Qwen/Qwen3-1.7B) at 8 at a time; "
        "no speculation at 64 at a time."
    )


def test_what_is_observed_at_a_load_is_of_that_load(comparison: Comparison) -> None:
    seen = observations([comparison])
    assert list(seen) == [Level(concurrency=number) for number in LEVELS]
    for level, found in seen.items():
        for item in found:
            server = KS[item.k]
            truth = true_gain(BASE, server, level.value)
            assert item.speedup == pytest.approx(truth, rel=0.15) and 0.01 <= item.error < 0.1
            assert item.tokens_per_step == pytest.approx(64 / server.mean_steps(), rel=0.15)


def test_the_time_to_the_first_token_is_no_part_of_what_is_learned(comparison: Comparison) -> None:
    """The theory is of decoding: a second of waiting in all arms changes the speed-up on whole requests, not that."""

    def later(each: RequestRecord) -> RequestRecord:
        chunks = tuple(replace(chunk, at_s=chunk.at_s + 1.0) for chunk in each.chunks)
        return each.model_copy(update={"chunks": chunks, "end_s": each.end_s + 1.0})

    waited = of(comparison.experiment, map(later, records(comparison.experiment)))
    point, before = (each.curve[0].points[0] for each in (waited, comparison))
    assert abs(point.speedup.ratio - 1) < 0.7 * abs(before.speedup.ratio - 1)
    (one, *_), (other, *_) = (observations([each])[Level(concurrency=1)] for each in (waited, comparison))
    assert one.speedup == pytest.approx(other.speedup)


def test_advise_prints_k_by_load(comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # runs in the checkout's results would count as evidence
    write_report(comparison, tmp_path)
    shown = call("advise", tmp_path).stdout
    assert shown.splitlines()[0] == comparison.advice
    assert "k=2 (Qwen/Qwen3-1.7B) at 8 at a time; no speculation at 64 at a time." in shown
    assert [line.split()[0] for line in shown.splitlines() if " at a time  " in line] == ["1", "8", "64"]
    document = json.loads(call("advise", tmp_path, "--json").stdout)
    best = {each["load"]: each["best"] and each["best"]["k"] for each in document["by_load"]}
    assert best == {"c1": 6, "c8": 2, "c64": None}


LOW, HIGH = Level(concurrency=1), Level(concurrency=32)
CANDIDATES = [Candidate("d", k) for k in (2, 4, 6, 8, 10)]


def test_a_compile_is_worth_what_it_gains_on_average_over_the_loads() -> None:
    """At 1 at a time more k is hoped for, at 32 none is worth anything: the average is what is asked for."""
    low = [Observation("d", 4, 2.2, 4.3, 0.02)]
    high = [Observation("d", 4, 0.5, 4.3, 0.02)]
    both = advise_over_loads(CANDIDATES, {HIGH: high, LOW: low}, most=MostTokens.K_PLUS_1)
    alone = advise(CANDIDATES, low, most=MostTokens.K_PLUS_1, loads=2)
    gains = [1.0 + advice.remaining_gain for _, advice in both.levels]
    assert both.together.remaining_gain == pytest.approx(math.sqrt(math.prod(gains)) - 1.0)
    assert [level for level, _ in both.levels] == [LOW, HIGH] and both.levels[0][1] == alone
    (belief,) = [each for each in both.together.beliefs if each.candidate == alone.compile_next]
    (own,) = [each for each in alone.beliefs if each.candidate == alone.compile_next]
    other = {each.candidate: each for each in both.levels[1][1].beliefs}[belief.candidate]
    assert belief.improvement == pytest.approx((own.improvement + other.improvement) / 2)
    assert belief.low < belief.speedup < belief.high < own.high
    assert both.together.best == Candidate("d", 4) and both.together.best_speedup == pytest.approx(2.2**0.5, rel=0.05)


def test_an_arm_that_was_measured_at_one_load_only_is_compiled() -> None:
    seen = {LOW: [Observation("d", 4, 2.2, 4.3), Observation("d", 6, 2.3, 5.0)], HIGH: [Observation("d", 4, 1.5, 4.3)]}
    found = advise_over_loads(CANDIDATES, seen, most=MostTokens.K_PLUS_1)
    assert Candidate("d", 6) not in {belief.candidate for belief in found.together.beliefs}


def test_the_sweep_ends_when_no_load_hopes_for_more() -> None:
    seen = {level: [Observation("d", k, 0.4, 1.2, 0.01) for k in (2, 4, 6, 8)] for level in (LOW, HIGH)}
    found = advise_over_loads(CANDIDATES, seen, most=MostTokens.K_PLUS_1).together
    assert found.compile_next is None and found.best is None and found.beliefs[0].improvement < WORTH
    assert found.reason == "Stop: another compile is expected to gain 0.0% on average over the 2 loads."


def adaptive(levels: tuple[int, ...]) -> Experiment:
    return asked(levels, ks=(2, 3, 4, 5, 6)).model_copy(update={"sweep": Sweep.ADAPTIVE})


def test_an_adaptive_sweep_at_several_loads_decides_for_all_of_them() -> None:
    """One step each of k=2 and k=6: which k next, and why, is said of the loads together; then what is left is told."""
    experiment = adaptive(LEVELS)
    arms = {"base": BASE, "sd-k2": KS[2], "sd-k6": KS[6]}
    steps = [
        of(experiment, run(experiment, {"base": BASE, name: arms[name]}, seed=number))
        for number, name in enumerate(("sd-k2", "sd-k6"))
    ]
    first = next_step(experiment, steps[:1])
    assert first.arm and "on average over the 3 loads" in first.reason
    advice = advise_sweep(experiment, steps)
    assert advice.together.reason.startswith(("Compile", "Stop")) and len(advice.levels) == 3
    step = next_step(experiment, steps)
    assert step.arm in (None, "sd-k3", "sd-k4", "sd-k5", "sd-k2", "sd-k6")
    assert "over the 3 loads" in step.reason or "again" in step.reason


def test_a_step_that_was_measured_at_no_load_ends_the_sweep() -> None:
    experiment = adaptive((1, 8))
    both = list(run(experiment, {"base": BASE, "sd-k2": KS[2]}, seed=1))
    nothing = of(experiment, [record for record in both if record.variant == "base"])
    assert next_step(experiment, [nothing]).arm is None
    assert len(advise_sweep(experiment, [of(experiment, both)]).levels) == 2


def test_before_any_run_a_sweep_at_several_loads_begins_as_any() -> None:
    one, several = (next_step(adaptive(levels), ()) for levels in ((8,), LEVELS))
    assert one.arm == several.arm is not None
