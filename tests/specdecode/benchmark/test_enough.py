"""Requests until a speed-up is settled, over real HTTP against servers of a known pace."""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from specdecode.benchmark.enough import Enough
from specdecode.benchmark.loading import Options
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.experiment.workload import Level, Workload
from specdecode.measures.arm import measure_arm
from specdecode.measures.arm_case import Terms
from specdecode.records import Servers

from tests.specdecode.benchmark.making import case, record, spec
from tests.specdecode.benchmark.pace import UNDECIDED, Pace
from tests.specdecode.benchmark.running import records, run
from tests.specdecode.benchmark.virtual import World

UNTIL = {"min": 4, "max": 40, "precision": 0.01}
COUNTERS = """vllm:spec_decode_num_drafts_total 10
vllm:spec_decode_num_draft_tokens_total 30
vllm:spec_decode_num_accepted_tokens_total 20
"""


def given(round_: int = 0, **workload: object) -> BenchmarkSpec:
    made = spec(arms=("base", "sd"), **({"requests": UNTIL, "warmup_requests": 1} | workload))
    arms = BenchmarkArm(variant="base", label="B"), BenchmarkArm(variant="sd", label="S", compare_to="base")
    return made.model_copy(update={"arms": arms, "round": round_})


def count(folder: Path, arm: str, round_: int = 0, name: str = "case") -> int:
    found = [r for r in records(folder, arm, name) if not r.warmup and r.round == round_]
    assert sorted(r.index for r in found) == list(range(len(found)))
    return len(found)


def test_a_clear_speed_up_ends_a_case_early_on_both_arms(tmp_path: Path, world: World) -> None:
    run(given(), Options(folder=tmp_path), Pace(first_s=0.04), Pace(first_s=0.01))
    assert 4 <= count(tmp_path, "base") == count(tmp_path, "sd") <= 16


def test_two_arms_that_differ_by_chance_are_measured_to_the_end(tmp_path: Path, world: World) -> None:
    """Neither pays, and 0.01 % is never narrow enough."""
    until = {"min": 4, "max": 12, "precision": 0.0001}
    run(given(requests=until), Options(folder=tmp_path), *(Pace(in_turn_s=waits) for waits in UNDECIDED))
    assert count(tmp_path, "base") == count(tmp_path, "sd") == 12


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        ({"requests": 4}, "b1 s2 b2 s2 b1"),
        ({"requests": {"min": 4, "max": 8, "precision": 0.000001}}, "b1 s2 b2 s2 b2 s2 b2 s2 b1"),
        ({"requests": 5}, "b1 s2 b2 s3 b2"),
        ({"requests": 8, "concurrency": 2}, "b4 s8 b4"),
        ({"requests": 8, "concurrency": 4}, "b8 s8"),
        ({"requests": 8, "load": "sequential"}, "b8 s8"),
        ({"requests": 4, "rate": 50}, "b4 s4"),
    ],
)
def test_the_arms_take_turns_within_a_case(tmp_path: Path, world: World, asked: dict[str, object], runs: str) -> None:
    run(given(**asked), Options(folder=tmp_path), *(Pace(in_turn_s=waits) for waits in UNDECIDED))
    both = [r for arm in ("base", "sd") for r in records(tmp_path, arm)]
    in_order = sorted((r for r in both if not r.warmup), key=lambda r: r.sent_s)
    found = [f"{arm[0]}{len(list(those))}" for arm, those in groupby(in_order, lambda r: r.variant)]
    assert " ".join(found) == runs
    assert Counter(r.variant for r in both if r.warmup) == {"base": 1, "sd": 1}, "each is warmed once"
    for arm in ("base", "sd"):
        portions = [r.portion for r in in_order if r.variant == arm]
        assert portions == sorted(portions)
        assert portions[0] == 0


def test_a_later_round_sends_what_the_first_one_sent(tmp_path: Path, world: World) -> None:
    run(given(), Options(folder=tmp_path), Pace(first_s=0.04), Pace(first_s=0.01))
    first = count(tmp_path, "sd")
    run(given(round_=1), Options(folder=tmp_path), Pace(first_s=0.04), Pace(first_s=0.04))
    assert (count(tmp_path, "base", 1), count(tmp_path, "sd", 1)) == (first, first), "equal arms would go on for long"


def test_where_arms_sent_different_numbers_before_all_send_the_most_now() -> None:
    """Earlier they were in waves of their own, which ended early apart."""
    arms = (*given().arms, BenchmarkArm(variant="sd-2", label="2", compare_to="base"))
    enough = Enough(given(round_=1).model_copy(update={"arms": arms}))
    for variant, sent in (("base", 20), ("sd", 8), ("sd-2", 20)):
        for index in reversed(range(sent)):
            enough.add(record(variant=variant, index=index, level="c1"))
    assert list(enough.portions(case(), Level(concurrency=1), alternate=True))[-1] == 20


@pytest.mark.parametrize("concurrency", [1, 4])
def test_two_identical_arms_cost_the_same(tmp_path: Path, world: World, concurrency: int) -> None:
    """Each is charged for its own turns. (By first send to last end, one cost twice the other.)"""
    paces = []
    for arm in ("base", "sd"):
        rng = random.Random(arm)
        paces.append(Pace(first_s=0.02, in_turn_s=tuple(rng.gauss(0.05, 0.0025) for _ in range(97)), gap_s=0.01))
    until = {"min": 8, "max": 40, "precision": 0.03}
    run(given(requests=until, concurrency=concurrency), Options(folder=tmp_path), *paces)
    dollars = []
    for arm in ("base", "sd"):
        own = [each for each in records(tmp_path, arm) if not each.warmup]
        dollars.append(measure_arm(own, terms=Terms(dollars_per_hour=10.0)).arm.cost_per_million or 0.0)
        assert measure_arm(own).arm.load_seconds * concurrency == pytest.approx(0.09 * len(own), rel=0.1)
    assert len(own) >= 8 and dollars[1] / dollars[0] == pytest.approx(1.0, abs=0.03)


def test_an_arm_that_has_the_node_alone_in_a_later_round_sends_what_it_sent_before(
    tmp_path: Path, world: World
) -> None:
    """Its partner did, too, in a wave of its own."""
    run(given(), Options(folder=tmp_path), Pace(first_s=0.04), Pace(first_s=0.01))
    alone = given(round_=1).model_copy(update={"arms": given().arms[:1]})
    run(alone, Options(folder=tmp_path), Pace(first_s=0.04))
    assert count(tmp_path, "base", 1) == count(tmp_path, "base") < 40


def test_an_arm_that_is_compared_with_none_here_is_measured_to_the_end(tmp_path: Path) -> None:
    alone = given().model_copy(update={"arms": (BenchmarkArm(variant="sd", label="S", compare_to="base"),)})
    run(alone, Options(folder=tmp_path), Pace())
    assert count(tmp_path, "sd") == 40


def test_counters_are_of_all_looks_together_or_not_kept(tmp_path: Path, world: World) -> None:
    until = {"min": 4, "max": 8, "precision": 0.000001}
    paces = [Pace(metrics=COUNTERS, in_turn_s=waits) for waits in UNDECIDED]
    run(given(requests=until), Options(folder=tmp_path), *paces)
    kept = Servers.model_validate_json((tmp_path / "servers.json").read_bytes()).counters
    assert {item.block for item in kept} == {("base", "case", 0, "c1"), ("sd", "case", 0, "c1")}
    for arm in ("base", "sd"):
        path = tmp_path / "raw" / arm / "case.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]))
    run(given(requests=until), Options(folder=tmp_path), *paces)
    assert Servers.model_validate_json((tmp_path / "servers.json").read_bytes()).counters == ()


def test_one_number_is_written_as_one_number_and_a_precision_as_it_was_given() -> None:
    plain = spec(requests=7).workload
    assert plain.model_dump(mode="json")["requests"] == 7
    assert Workload.model_validate_json(plain.model_dump_json(), strict=True) == plain
    until = given().workload
    assert until.model_dump(mode="json")["requests"] == UNTIL
    assert Workload.model_validate_json(until.model_dump_json(), strict=True) == until
    assert (until.requests_of(case()), until.fewest_of(case(), until.levels[0])) == (40, 4)
    assert str(until.requests) == "4 to 40 requests (until ±1.0% or a verdict)"
