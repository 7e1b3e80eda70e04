"""Which arms share the node: the fewest waves, none beyond the node, compared arms together, other places by turns."""

from itertools import chain

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from specdecode.experiment import load_engine, load_preset
from specdecode.experiment.shapes import SHAPES
from specdecode.experiment.sizing import arms_at_once
from specdecode.planning.waves import pack

from tests.fuzz.profile import fuzz
from tests.plans import PRICED, plan_for

TRIO = {"base": "base-async", "sd": "base"}
"""The native presets' arms, and what each is compared with."""


def pairs_of(compared: dict[str, str]) -> list[frozenset[str]]:
    return [frozenset(pair) for pair in compared.items()]


def waves(plan):
    return [(wave.round, [arm.variant for arm in wave.arms]) for wave in plan.waves]


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[str], dict[str, str]]:
    """Arms in any order, each compared with one or none; no circles."""
    made = [f"v{at}" for at in range(draw(st.integers(1, 12)))]
    above = {name: draw(st.sampled_from([None, *made[:at]])) for at, name in enumerate(made)}
    return draw(st.permutations(made)), {name: other for name, other in above.items() if other}


@fuzz(300)
@given(forest=forests(), size=st.integers(1, 5), rounds=st.integers(1, 5))
def test_each_round_has_every_arm_once_in_the_fewest_waves_and_none_is_beyond_the_node(forest, size, rounds):
    names, compared = forest
    packed = pack(names, pairs_of(compared), size=size, rounds=rounds)
    assert len(packed) == rounds
    for groups in packed:
        assert sorted(chain.from_iterable(groups)) == sorted(names)
        assert len(groups) == -(-len(names) // size) and max(map(len, groups)) <= size
    assert packed == pack(names, pairs_of(compared), size=size, rounds=rounds)


@fuzz(300)
@given(arms=st.integers(1, 12), size=st.integers(2, 5), rounds=st.integers(1, 6), at=st.integers(0, 12))
def test_a_baseline_is_beside_as_many_of_its_arms_as_the_rounds_have_places(arms, size, rounds, at):
    names = [f"sd-{number}" for number in range(arms)]
    compared = dict.fromkeys(names, "base")
    names.insert(at, "base")
    packed = pack(names, pairs_of(compared), size=size, rounds=rounds)
    met = {name for groups in packed for group in groups if "base" in group for name in group} - {"base"}
    assert len(met) == min(arms, rounds * (size - 1))


@fuzz(200)
@given(forest=forests(), size=st.integers(2, 5))
def test_arms_that_all_fit_are_one_wave_in_which_each_has_each_place_in_turn(forest, size):
    names, compared = forest
    assume(len(names) <= size)
    packed = pack(names, pairs_of(compared), size=size, rounds=len(names))
    assert [len(groups) for groups in packed] == [1] * len(names)
    for at in range(len(names)):
        assert {groups[0][at] for groups in packed} == set(names), "each arm in each place"


@pytest.mark.parametrize(
    "order", [["base", "sd", "base-async"], ["base-async", "base", "sd"], ["sd", "base-async", "base"]]
)
def test_three_arms_on_a_node_for_two_are_neighbours_by_turns(order):
    (first, second) = pack(order, pairs_of(TRIO), size=2, rounds=2)
    together = {frozenset(group) for group in [*first, *second] if len(group) == 2}
    assert together == set(pairs_of(TRIO))


def test_a_pair_swaps_its_places_and_other_rounds_go_backwards():
    packed = pack(["a", "b", "c", "d"], pairs_of({"b": "a", "d": "c"}), size=2, rounds=3)
    assert packed == [[["a", "b"], ["c", "d"]], [["d", "c"], ["b", "a"]], [["a", "b"], ["c", "d"]]]
    assert pack(["a", "b", "c", "d"], pairs_of({"b": "a", "d": "c"}), size=3, rounds=1) == [[["a", "b"], ["c", "d"]]]


@pytest.mark.parametrize(
    "preset", ["llama-3.1-8b-eagle3", "llama-3.1-8b-dflash", "llama-3.3-70b-fp8-eagle3", "gpt-oss-120b-eagle3"]
)
def test_the_three_arms_of_a_native_preset_share_the_node_in_both_rounds(preset):
    plan = plan_for(load_preset(preset))
    assert waves(plan) == [(0, ["base", "sd", "base-async"]), (1, ["sd", "base-async", "base"])]
    wide = load_preset(preset, overrides={"serving.devices": 8})
    apart = plan_for(wide)
    assert waves(apart) == [(0, ["base", "sd"]), (0, ["base-async"]), (1, ["sd"]), (1, ["base-async", "base"])]
    assert plan.cost.high < apart.cost.high, "fewer servers are loaded one after the other"
    assert [text for text in apart.warnings if "is enough, and more arms share the node" in text]
    assert not [text for text in plan.warnings if "is enough" in text]


def test_arms_that_never_share_the_node_cannot_end_early_and_the_plan_says_so():
    until = {"workload.requests": {"min": 4, "max": 60, "precision": 0.05}}
    (told,) = [w for w in plan_for(load_preset("qwen3-32b-latency", overrides=until)).warnings
               if "none ends early" in w]  # fmt: skip
    assert told.endswith("each sends 60")
    for preset, overrides in (("qwen3-32b", until), ("qwen3-32b-latency", {})):
        plan = plan_for(load_preset(preset, overrides=overrides))
        assert not [text for text in plan.warnings if "none ends early" in text]
    until = {"workload.requests": {"min": 4, "max": 60, "precision": 0.05}}
    early, all_of_them = (
        plan_for(load_preset("qwen3-32b-latency", overrides=overrides)).node_hours
        for overrides in (until, {"workload.requests": 60})
    )
    assert early == all_of_them
    until = {"serving.devices": 8, "workload.rounds": 2, "workload.requests": {"min": 4, "max": 60, "precision": 0.05}}
    plan = plan_for(load_preset("llama-3.1-8b-eagle3", overrides=until))
    assert waves(plan) == [(0, ["base", "sd"]), (0, ["base-async"]), (1, ["sd"]), (1, ["base-async", "base"])]
    (told,) = [text for text in plan.warnings if "cannot end early" in text]
    assert told.startswith("workload.requests: base-async: ") and told.endswith("sends 60")
    until["serving.devices"] = 4
    plan = plan_for(load_preset("llama-3.1-8b-eagle3", overrides=until))
    assert not [text for text in plan.warnings if "cannot end early" in text]


@fuzz(60)
@given(
    shape=st.sampled_from(sorted(SHAPES)), claim=st.integers(0, 3), gib=st.floats(0.01, 600), monitored=st.booleans()
)
def test_arms_that_the_node_has_devices_but_no_room_for_wait_for_each_other(shape, claim, gib, monitored):
    """The pods of a wave together, as the manifests ask for them, with what the node keeps for itself."""
    claims = SHAPES[shape].claims or (0,)
    experiment = load_preset("rehearsal-sweep", overrides={"sweep": "grid"})
    serving = experiment.serving.model_copy(
        update={"devices": claims[claim % len(claims)], "neuron_metrics": monitored}
    )
    target = experiment.target.model_copy(update={"size_gib": gib})
    experiment = experiment.model_copy(update={"node": shape, "serving": serving, "target": target})
    given_engine = load_engine("0.29.0-sdk2.33.0" if serving.devices else "0.32.0-cpu")
    engine = given_engine.on_node(shape, serving.devices)
    arms = arms_at_once(experiment, engine)
    plan = plan_for(experiment, engine=given_engine, capacity=PRICED)
    assert max(len(wave.arms) for wave in plan.waves) == arms
    for wave in plan.waves:
        weights = [experiment.weights_gib(experiment.variant(arm.variant)) for arm in wave.arms]
        sizes = engine.resources
        cpu = len(weights) * sizes.serving.cpu + sizes.benchmark.cpu
        memory = sum(map(sizes.serving.memory_request_gib, weights)) + sizes.benchmark.memory_gib
        disk = sum(map(sizes.serving.ephemeral_request_gib, weights)) + sizes.benchmark.ephemeral_gib
        room = experiment.shape
        assert len(weights) * serving.devices <= room.devices
        if arms > 1:
            assert (cpu <= room.cpu, memory <= room.memory_gib, disk <= room.disk_gib) == (True, True, True)
    most = min(experiment.side_by_side, len(experiment.variants))
    told = [text for text in plan.warnings if "at a time, though there are devices for" in text]
    assert bool(told) == (arms < most)
