"""The start check in the plan: which arms, how long, for how much."""

import pytest
from specdecode.experiment import load_preset
from specdecode.manifests.compiling import UNDER_A_HEAD, layers
from specdecode.planning import Inventory, make_bill
from specdecode.planning.artifacts import first_of_each_kind

from tests.plans import PRICED, plan_for


@pytest.mark.parametrize(
    ("preset", "checked", "groups"),
    [
        ("rehearsal", ("base", "sd"), 1), ("qwen3-32b", ("base", "sd"), 1), ("qwen3-32b-latency", ("base", "sd"), 2),
        ("qwen3-32b-tuning", None, 1), ("llama-3.1-405b", ("base", "base-fp8", "sd-fp8"), 3),
        ("llama-3.1-8b-eagle3", ("base", "sd"), 1),
    ],
)  # fmt: skip
def test_one_arm_of_each_kind_is_checked_within_a_bound_that_the_bill_has(preset, checked, groups):
    off = plan_for(load_preset(preset, overrides={"start_check": False}), capacity=PRICED)
    plan = plan_for(load_preset(preset), capacity=PRICED)
    assert plan.start_checks == (checked or plan.start_checks[:2]) and off.start_checks == ()
    (step,) = (step for step in plan.steps if step.name == "StartCheck")
    each = plan.experiment.deadlines.start_check
    assert (step.deadline_minutes, step.works) == (each * groups, groups)
    dearer = make_bill(plan, PRICED).most - make_bill(off, PRICED).most
    assert 0 < dearer <= groups * (each + 1) / 60 * plan.price_per_node_hour
    more = plan.cost.high - off.cost.high
    assert 0 < more < dearer and plan.cost.low > off.cost.low
    kinds = first_of_each_kind(plan.served, plan.engine)
    known = plan_for(plan.experiment, inventory=Inventory(prefixes=frozenset(kinds)), capacity=PRICED)
    assert known.start_checks == () and known.cost == off.cost


def test_the_target_of_a_head_keeps_the_layers_that_it_listens_to():
    plan = plan_for(load_preset("llama-3.1-8b-eagle3"), capacity=PRICED)
    assert {layers(arm) for arm in plan.served.variants} == {2, UNDER_A_HEAD}
    n = UNDER_A_HEAD
    assert len({2, n // 2, n - 3}) == 3 and max(2, n // 2, n - 3) < n
