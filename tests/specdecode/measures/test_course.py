"""The run as it went: stretches by arm, case, round and process, with its failed requests never left out."""

import random

import pytest
from specdecode.measures.course import ALL_SHOWN, SHOWN, timeline
from specdecode.records import RequestRecord

from tests.specdecode.analysis.simulate import experiment, request, run


def test_every_arm_case_and_round_is_a_stretch_in_the_order_of_time() -> None:
    tested = experiment(rounds=2)
    records = list(run(tested))
    found = timeline(records)
    assert [(each.round, each.case, each.variant) for each in found] == [
        (number, case, arm) for number in (0, 1) for case in ("repeat", "sonnet") for arm in ("base", "sd")
    ]
    first = [r for r in records if (r.variant, r.case, r.round) == ("base", "repeat", 0)]
    assert found[0].began == first[0].started_at
    assert found[0].seconds == pytest.approx(max(r.sent_s + r.end_s for r in first) - first[0].sent_s)
    assert [item.took_s for item in found[0].shown] == [round(r.end_s, 5) for r in first]
    assert sum(each.requests for each in found) == len(records)


def test_a_resumed_run_is_two_stretches_and_no_warm_up_is_in_them() -> None:
    records = [r.model_copy(update={"session": int(r.index >= 5), "warmup": r.index == 0}) for r in run(experiment())]
    found = [each for each in timeline(records) if (each.variant, each.case) == ("sd", "repeat")]
    assert [(each.session, each.requests) for each in found] == [(0, 4), (1, 3)]


def many(count: int, *, failed: int, case: str = "repeat") -> list[RequestRecord]:
    rng = random.Random(1)
    return [
        request(
            variant="sd",
            case=case,
            index=i,
            rng=rng,
            sent_s=i * 5.0,
            tokens=12,
            failed=i in range(count - failed, count),
        )
        for i in range(count)
    ]


def test_of_many_requests_some_are_kept_and_the_failed_ones_first() -> None:
    (found,) = timeline(many(500, failed=3))
    assert found.requests == 500 and found.failed == 3
    assert len(found.shown) <= SHOWN
    assert sum(item.failed is not None for item in found.shown) == 3
    assert [item.at_s for item in found.shown] == sorted(item.at_s for item in found.shown)
    (broken,) = timeline(many(500, failed=500))
    assert len(broken.shown) == SHOWN // 2
    stretches = timeline(r.model_copy(update={"case": f"c{n}"}) for n in range(100) for r in many(60, failed=1))
    assert sum(len(each.shown) for each in stretches) <= ALL_SHOWN
    assert all(any(item.failed for item in each.shown) for each in stretches)
