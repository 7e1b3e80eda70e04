"""An adaptive sweep's plan: its waves so far, and an estimate that holds however far it goes."""

import pytest
from specdecode import s3_keys
from specdecode.experiment import load_engine, load_preset
from specdecode.planning import Inventory, SweepStep, fingerprint
from specdecode.planning.events import HISTORY_LIMIT
from specdecode.planning.waves import MORE_STEPS, MOST_STEPS

from tests.plans import plan_for

TUNING = load_preset("qwen3-32b-tuning")
SMALL = load_preset("rehearsal-sweep")


def planned(experiment, *arms):
    steps = tuple(SweepStep(arm=arm, reason="so") for arm in arms)
    return plan_for(experiment, sweep=steps)


def waves(plan):
    return [(wave.round, [arm.variant for arm in wave.arms]) for wave in plan.waves]


def test_every_step_is_the_base_beside_an_arm_in_a_round_of_its_own():
    plan = planned(SMALL, "sd-k4", "sd-k8", "sd-k4")
    swapped = "an arm that is measured again has the other device group"
    assert waves(plan) == [(0, ["base", "sd-k4"]), (1, ["base", "sd-k8"]), (2, ["sd-k4", "base"])], swapped
    assert [item.arm.variant for item in plan.artifacts] == ["base", "sd-k4", "sd-k8"]
    assert {item.model.id for item in plan.models} == {"specdecode/pair-target", "specdecode/pair-draft"}
    whole = load_preset("rehearsal-sweep", overrides={"serving.devices": 16, "serving.tensor_parallel_size": 64})
    assert waves(planned(whole, "sd-k4", "sd-k8")) == [(0, ["base"]), (0, ["sd-k4"]), (1, ["base"]), (1, ["sd-k8"])]
    twice = load_preset("rehearsal-sweep", overrides={"workload.rounds": 2})
    got = waves(planned(twice, "sd-k4", "sd-k8"))
    assert got == [(0, ["base", "sd-k4"]), (1, ["sd-k4", "base"]), (2, ["base", "sd-k8"]), (3, ["sd-k8", "base"])]


@pytest.mark.parametrize("experiment", [TUNING, SMALL], ids=lambda experiment: experiment.name)
def test_the_estimate_holds_from_the_first_step_to_the_last(experiment):
    names = [variant.name for variant in experiment.variants if variant.compare_to]
    most = min(MOST_STEPS, len(names) + MORE_STEPS)
    first, last = planned(experiment, names[0]), planned(experiment, *(names * 2)[:most])
    assert first.sweep.most_steps == most
    assert len(first.waves) + first.sweep.waves_to_come == len(last.waves) == most
    assert last.sweep.waves_to_come == last.sweep.compiles_to_come == 0
    assert first.worst_case_events == last.worst_case_events < HISTORY_LIMIT
    assert first.node_hours.low < first.node_hours.high == pytest.approx(last.node_hours.high)
    assert first.node_hours.low < last.node_hours.low
    assert first.sweep.compiles_to_come == min(most, len(names)) - 1


def test_a_sweep_that_is_over_costs_no_more():
    plan = planned(SMALL, "sd-k4", None)
    assert plan.sweep.is_over
    assert waves(plan) == [(0, ["base", "sd-k4"])]
    assert plan.sweep.waves_to_come == plan.sweep.compiles_to_come == 0
    assert plan_for(load_preset("rehearsal-sweep", overrides={"sweep": "grid"})).sweep is None


def test_the_bound_counts_arms_that_must_be_compiled_before_those_that_are():
    whole = load_engine(TUNING.images_of)
    arms = [variant.name for variant in TUNING.variants if variant.compare_to]
    made = frozenset(
        s3_keys.compiled_prefix(fingerprint(TUNING, TUNING.variant(name), whole.on_node(TUNING.node, TUNING.devices)))
        for name in arms[:6]
    )
    plan = plan_for(TUNING, inventory=Inventory(prefixes=made), sweep=(SweepStep(arm=arms[0], reason="so"),))
    assert plan.sweep.compiles_to_come == 15, (
        "16 steps, of which the first is compiled: the advisor may choose no other"
    )
