"""The backstop and several pools: one run's trouble never ends another run's instance."""

from datetime import timedelta

import pytest

from tests.backstop.aws import EXECUTION, HOLDING, LOOKS, MANY, NOW, OLD, Aws, look


@pytest.mark.parametrize(
    ("age", "why"),
    [(HOLDING.total_seconds() + 1, "longer than 60 h"), (-300_000_000, "longer than 60 h"), (0, "no run has held")],
)
def test_only_the_instance_of_the_pool_in_question_is_ended_and_never_another_run_s(aws, age, why):
    aws.beats(lease_age=age)
    aws.of_pool["trn2-2"] = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [3600.0] * LOOKS}
    aws.instance("i-healthy", EXECUTION, **{"karpenter.sh/nodepool": "trn2-2"})
    aws.executions = [NOW - timedelta(hours=61), NOW - timedelta(hours=2)]
    assert why in look(aws)["why"]
    assert aws.alive == ["i-healthy"]
    assert look(aws)["ended"] == [], "closed or not: the other run's instance stays"


def test_a_young_instance_of_another_pool_is_left_alone_though_karpenter_is_closed_for_a_stuck_run(aws):
    aws.beats()
    aws.of_pool["trn2"] = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [HOLDING.total_seconds() + 1] * LOOKS}
    look(aws)
    aws.instance("i-new", timedelta(minutes=2), **{"karpenter.sh/nodepool": "trn2-2"})
    assert look(aws)["ended"] == [], "the watchdog has not looked since that run got its node"
    assert aws.closed == {"trn2"}, "another run may have its node launched"
    aws.instance("i-again", timedelta(minutes=2))
    assert look(aws)["ended"] == ["i-again"], "launched for the stuck run"
    aws.of_pool.clear()
    look(aws)
    assert not aws.closed


def test_a_pool_stays_closed_while_an_instance_of_it_is_left_that_nobody_holds(aws):
    aws.beats()
    look(aws)
    assert aws.closed == {"trn2"}
    aws.instance("i-new", timedelta(minutes=2))
    look(aws)
    assert aws.closed == {"trn2"}
    aws.instances["i-new"]["state"] = "terminated"
    look(aws)
    assert not aws.closed


def of_pools(aws: Aws, *pools: str) -> None:
    for pool in pools:
        aws.instance(f"i-{pool}", OLD, **{"karpenter.sh/nodepool": pool})


def test_several_pools_are_closed_one_by_one_and_opened_one_by_one(aws):
    aws.beats(lease_age=3600)
    stuck = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [HOLDING.total_seconds() + 1] * LOOKS}
    aws.of_pool = {"trn2": stuck, "trn2-7": stuck}
    of_pools(aws, "trn2-7", "trn2-8")
    assert look(aws, pools=MANY)["closed"] == ["trn2", "trn2-7"] and aws.closed == {"trn2", "trn2-7"}
    assert aws.alive == ["i-trn2-8"]
    assert "no instance of trn2, trn2-7 until" in aws.told[-1][1]
    del aws.of_pool["trn2"]
    look(aws, pools=MANY)
    assert aws.closed == {"trn2-7"} and aws.told[-1][1].endswith("may launch trn2 again.")


def test_more_pools_than_a_role_takes_policies_are_closed_together_and_opened_apart(aws):
    aws.beats(lease_age=3600)
    stuck = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [HOLDING.total_seconds() + 1] * LOOKS}
    in_question = MANY[:5]
    aws.of_pool = dict.fromkeys(in_question, stuck)
    of_pools(aws, *in_question)
    found = look(aws, pools=MANY)
    assert aws.closed == {"all"} and found["closed"] == sorted(MANY) and aws.alive == []
    told = list(aws.told)
    assert look(aws, pools=MANY)["closed"] == sorted(MANY) and aws.told == told
    aws.of_pool = {"trn2-2": stuck}
    look(aws, pools=MANY)
    assert aws.closed == {"trn2-2"}
    assert "trn2-16" in aws.told[-1][1] and "trn2-2," not in aws.told[-1][1]


def test_where_nobody_watches_all_of_many_pools_are_closed_by_one_policy(aws):
    of_pools(aws, *MANY)
    look(aws, pools=MANY)
    assert aws.closed == {"all"} and aws.alive == []


def test_a_policy_that_the_role_does_not_take_opens_nothing_and_is_an_alarm(aws):
    aws.beats(lease_age=3600)
    stuck = {"NodesWithoutLease": [0.0] * LOOKS, "LeaseAge": [HOLDING.total_seconds() + 1] * LOOKS}
    aws.of_pool = dict.fromkeys(MANY[:4], stuck)
    of_pools(aws, *MANY[:4])
    look(aws, pools=MANY)
    aws.of_pool, aws.full = {"trn2-2": stuck, "trn2-3": stuck}, {"trn2-2"}
    with pytest.raises(RuntimeError, match=r"kept from launching \(trn2-2\): .*LimitExceeded"):
        look(aws, pools=MANY)
    assert aws.closed == {"all", "trn2-3"}


def test_while_nobody_watches_all_pools_are_in_question(aws):
    aws.instance("i-second", OLD, **{"karpenter.sh/nodepool": "trn2-2"})
    assert sorted(look(aws)["ended"]) == ["i-old", "i-second"]


def test_the_run_after_a_stuck_one_keeps_its_node(aws):
    aws.beats()
    aws.metrics["LeaseAge"] = [HOLDING.total_seconds() + 600, 100.0, 400.0, 700.0, 1000.0, 1300.0]
    aws.executions = [NOW - timedelta(minutes=25)]
    assert look(aws)["ended"] == []
