"""Several loads in one benchmark: every level on the same servers, in an order in which drift is no load."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError
from specdecode.benchmark.adhoc import BadRequest
from specdecode.benchmark.loading import Options, blocks
from specdecode.experiment.workload import Level, Load, Workload

from tests.specdecode.benchmark.making import case, spec
from tests.specdecode.benchmark.pace import Pace
from tests.specdecode.benchmark.running import records, run
from tests.specdecode.benchmark.virtual import World


def order(load: Load = Load.INTERLEAVED, seed: int = 1) -> list[tuple[str, str, tuple[str, ...]]]:
    asked = {"cases": tuple(map(case, "abc")), "concurrency": (1, 2, 4, 8), "load": load, "seed": seed}
    found = blocks(spec(arms=("base", "sd"), **asked))
    return [(block.case.name, block.level.name, arms) for block in found for arms in block.order]


@pytest.mark.parametrize("load", list(Load))
def test_every_arm_is_loaded_with_every_case_at_every_level_once(load: Load) -> None:
    seen = Counter((name, level, arm) for name, level, arms in order(load) for arm in arms)
    assert len(seen) == 2 * 3 * 4 and set(seen.values()) == {1}


def test_both_arms_meet_a_level_one_after_the_other_and_the_levels_come_in_another_order_for_each_case() -> None:
    blocks = [order()[at : at + 2] for at in range(0, 24, 2)]
    assert all(first[:2] == second[:2] for first, second in blocks)
    assert Counter(first[2] for first, _ in blocks) == {("base",): 6, ("sd",): 6}
    orders = {tuple(level for name, level, _ in order() if name == each) for each in "abc"}
    assert len(orders) == 3, "no drift of the machine is the same for all cases"
    assert order(seed=2) != order(seed=1) == order(seed=1)


def test_a_level_is_on_the_server_as_it_says_and_in_every_record(tmp_path: Path, world: World) -> None:
    base, sd = Pace(first_s=0.01), Pace(first_s=0.01)
    given = spec(arms=("base", "sd"), cases=(case("one"),), requests=3, concurrency=(4, 1), warmup_requests=1)
    outcome = run(given, Options(folder=tmp_path), base, sd)
    assert not outcome.problems
    for arm, pace in (("base", base), ("sd", sd)):
        assert pace.most_under_way == 4
        found = [record for record in records(tmp_path, arm, "one") if not record.warmup]
        assert Counter(record.level for record in found) == {"c4": 8, "c1": 3}, "two requests a stream, at least"
        by_level = {name: [r for r in found if r.level == name] for name in ("c1", "c4")}
        assert [r.index for r in by_level["c1"]] == [0, 1, 2]
        assert sorted(r.index for r in by_level["c4"]) == list(range(8))
        ends = [(r.sent_s, r.sent_s + r.end_s) for r in by_level["c1"]]
        assert all(before[1] <= after[0] + 1e-6 for before, after in pairwise(ends)), ends
    assert outcome.sent["sd", "one", "c4"] == (8, 0)


def test_one_number_stays_one_number() -> None:
    plain = {"cases": [], "input_tokens": 1, "output_tokens": 1, "requests": 3}
    plain["cases"] = [case("one").model_dump()]
    one = Workload.model_validate({**plain, "concurrency": 8})
    assert one.levels == (Level(concurrency=8),) and one.model_dump()["concurrency"] == 8
    assert one.requests_of(one.cases[0]) == 3, "an experiment of one load sends what it says"
    rates = Workload.model_validate({**plain, "rate": [0.5, 2]})
    assert [level.name for level in rates.levels] == ["r0.5", "r2"] and rates.model_dump(mode="json")["rate"] == [
        0.5,
        2,
    ]
    assert Workload.model_validate_json(rates.model_dump_json(), strict=True) == rates


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"concurrency": [1, 2, 1]}, "each level once: 1 is there several times"),
        ({"concurrency": []}, "give one load at least"),
        ({"concurrency": [0]}, "greater than or equal to 1"),
        ({"concurrency": list(range(1, 14))}, "at most 12"),
        ({"concurrency": [1, 2], "rate": 1.0}, "two kinds of load"),
        ({"rate": [5000.0001, 5000.0002]}, "each level once: 5000 is there several times"),
        ({"rate": [10_001]}, "less than or equal to 10000"),
        ({"rate": [1.0, -1.0]}, "greater than 0"),
        ({"rate": [float("inf")]}, "finite"),
        ({"requests": {"min": 9, "max": 8, "precision": 0.1}}, "min 9 is more than max 8"),
        ({"requests": {"min": 9, "max": 18}}, "min is for requests with a precision"),
        ({"requests": {"max": 18, "precision": 0}}, "greater than 0"),
        ({"requests": {"precision": 0.1}}, "Field required"),
        ({"requests": 0}, "a whole number of 1 to 100,000, or {min, max, precision}"),
        ({"requests": "8"}, "a whole number"),
        ({"requests": True}, "a whole number"),
        ({"requests": {"max": 18, "precision": 0.1}, "load": "sequential"}, "load must not be sequential"),
    ],
)
def test_levels_and_requests_that_make_no_sense_are_refused(wrong: dict, says: str) -> None:
    with pytest.raises((ValidationError, BadRequest), match=re.escape(says)):
        Workload.model_validate({**spec().workload.model_dump(), **wrong})
