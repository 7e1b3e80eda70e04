"""Parts of one sweep, each on a node of its own: every arm beside the baseline of its own run."""

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.several_runs.difference import NoSets, difference, joint
from specdecode.cli.report_view import joint_text
from specdecode.experiment.model import Experiment

from tests.specdecode.analysis.simulate import context, experiment, run

SWEEP = experiment(ks=(3, 7, 11), requests=12)


def part(tested: Experiment, *arms: str) -> Experiment:
    kept = tuple(variant for variant in tested.variants if variant.name in arms or variant.compare_to is None)
    return tested.model_copy(update={"variants": kept})


def measured(tested: Experiment, run_id: str, *, slow: float = 1.0, seed: int = 1) -> Comparison:
    """On a node that is `slow` by its factor for all arms alike."""
    everywhere = {(variant.name, turn): slow for variant in tested.variants for turn in range(tested.rounds)}
    return compare(
        experiment=tested, records=list(run(tested, seed=seed, slow=everywhere)), context=context(run_id=run_id)
    )


def two(slow: float = 1.0) -> list[Comparison]:
    return [
        measured(part(SWEEP, "sd-k3", "sd-k7"), "sweep-1"),
        measured(part(SWEEP, "sd-k11"), "sweep-2", slow=slow, seed=2),
    ]


def test_every_arm_is_there_once_the_fastest_first_with_its_run() -> None:
    found = joint(two())
    assert found and found.runs == ("sweep-1", "sweep-2") and found.not_measured == ()
    assert {arm.variant: arm.run_id for arm in found.arms} == {
        "sd-k3": "sweep-1", "sd-k7": "sweep-1", "sd-k11": "sweep-2",
    }  # fmt: skip
    ratios = [arm.speedup.ratio for arm in found.arms if arm.speedup]
    assert len(ratios) == 3 and ratios == sorted(ratios, reverse=True)
    alone = {pair.variant: pair for item in two() for pair in item.pairs}
    assert all(arm.speedup == alone[arm.variant].among.speedup for arm in found.arms if alone[arm.variant].among)


def test_a_slow_node_changes_no_speed_up_and_no_place_and_is_seen_in_its_baseline() -> None:
    """Half as fast: beside the other run's baseline the arm would lose half of its speed-up."""
    alike, apart = joint(two()), joint(two(slow=2.0))
    assert alike and apart
    assert [arm.variant for arm in apart.arms] == [arm.variant for arm in alike.arms]
    for before, after in zip(alike.arms, apart.arms, strict=True):
        assert before.speedup and after.speedup and before.baseline_speed and after.baseline_speed
        assert after.speedup.ratio == pytest.approx(before.speedup.ratio, rel=1e-9)
        slower = 2.0 if after.run_id == "sweep-2" else 1.0
        assert after.baseline_speed == pytest.approx(before.baseline_speed / slower, rel=1e-9)


def test_the_text_says_that_nodes_may_differ_and_what_settles_a_choice() -> None:
    found = joint(two())
    assert found
    text = joint_text(found)
    assert [line.split()[0] for line in text.splitlines()[2:5]] == [arm.variant for arm in found.arms]
    assert "sweep-2" in text and "Arms of different runs were measured on different nodes" in text
    assert "Nodes of one kind may differ" in text
    assert "measure the best of them once more in one run" in text and found.first_of is None
    work = SWEEP.workload.model_copy(update={"concurrency": (1, 4)})
    both = [
        each.model_copy(update={"experiment": each.experiment.model_copy(update={"workload": work})}) for each in two()
    ]
    over = joint(both)
    assert over and joint_text(over).count("At the first load, 1 at a time") == 1


def test_an_arm_that_a_part_did_not_measure_is_named() -> None:
    first, second = two()
    without = second.model_copy(update={"pairs": (), "chains": ()})
    found = joint([first, without])
    assert found and found.not_measured == ("sd-k11",) and "Not measured: sd-k11." in joint_text(found)


@pytest.mark.parametrize(
    "other",
    [
        SWEEP,
        part(SWEEP, "sd-k3"),
        part(SWEEP, "sd-k11").model_copy(update={"name": "another"}),
        part(SWEEP.model_copy(update={"workload": SWEEP.workload.model_copy(update={"output_tokens": 64})}), "sd-k11"),
    ],
)
def test_runs_that_are_no_parts_of_one_sweep_are_compared_otherwise(other: Experiment) -> None:
    first = measured(part(SWEEP, "sd-k3", "sd-k7"), "sweep-1")
    assert joint([first, measured(other, "b", seed=2)]) is None
    assert joint([first]) is None


def test_runs_of_three_questions_are_refused_with_what_differs() -> None:
    """At most three differences of each."""
    first, _ = two()
    work = SWEEP.workload.model_copy(update={"output_tokens": 64, "input_tokens": 9, "ignore_eos": True, "seed": 9})
    others = [
        first.model_copy(update={"run_id": run_id, "experiment": first.experiment.model_copy(update=update)})
        for run_id, update in (("b", {"name": "other"}), ("c", {"workload": work}))
    ]
    with pytest.raises(NoSets) as caught:
        difference([first, *others])
    assert str(caught.value) == (
        "these runs ask 3 different questions; give runs of two at most (b: name: simulated -> other; "
        f"c: workload.ignore_eos: False -> True, workload.input_tokens: {SWEEP.workload.input_tokens} -> 9, "
        "workload.output_tokens: 200 -> 64)"
    )


def test_a_baseline_that_is_served_otherwise_makes_another_sweep() -> None:
    first, second = two()
    base, *rest = second.experiment.variants
    changed = second.experiment.model_copy(update={"variants": (base.model_copy(update={"env": {"A": "1"}}), *rest)})
    assert joint([first, second.model_copy(update={"experiment": changed})]) is None
