"""A sweep in parts: each arm once, beside its own baselines, in about the same hours; and each part is a run."""

import pytest
from specdecode import s3_keys
from specdecode.experiment import Capacity, ExperimentError, from_document, load_engine, load_preset
from specdecode.planning import Inventory, fingerprint, make_bill
from specdecode.planning.several_nodes import plan_parts

from tests.plans import plan_for

TERMS = Capacity(node="trn2.48xlarge", nodes=16)
TUNING = load_preset("qwen3-32b-tuning", overrides={"sweep": "grid"})


def parts_of(experiment=TUNING, nodes=4, **given):
    return plan_parts(experiment, nodes, inventory=Inventory(), capacity=TERMS, **given)


def compared(experiment):
    return [variant.name for variant in experiment.variants if variant.compare_to is not None]


@pytest.mark.parametrize("nodes", [2, 3, 4, 7, 16])
def test_every_arm_is_in_one_part_beside_its_baseline(nodes):
    parts = parts_of(nodes=nodes)
    assert len(parts) == nodes
    assert [arm for part in parts for arm in part.arms] == compared(TUNING)
    for part in parts:
        own = part.plan.experiment
        assert compared(own) == list(part.arms)
        assert [variant.name for variant in own.variants if variant.compare_to is None] == ["base"]
        assert (own.workload, own.serving, own.name) == (TUNING.workload, TUNING.serving, TUNING.name)


def test_a_part_is_an_ordinary_experiment_planned_and_priced_as_one():
    for part in parts_of():
        read = from_document(part.plan.experiment.model_dump(mode="json"), capacity=TERMS)
        assert read == part.plan.experiment
        alone = plan_for(read, capacity=TERMS, now=None)
        assert alone.node_hours == part.plan.node_hours and make_bill(alone, TERMS) == part.bill


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_the_parts_take_about_the_same_hours(nodes):
    parts = parts_of(nodes=nodes)
    hours = [part.plan.node_hours.high for part in parts]
    longest_arm = max(part.plan.node_hours.high / len(part.arms) for part in parts)
    assert max(hours) - min(hours) <= longest_arm, "no part has an arm more than another"


def test_a_part_whose_arms_are_compiled_already_has_more_of_them():
    engine = load_engine(TUNING.engine)
    made = {
        s3_keys.compiled_prefix(fingerprint(TUNING, TUNING.variant(name), engine))
        for name in ("base", *compared(TUNING))
        if "0.6b" in name or name == "base"
    }
    first, second = plan_parts(TUNING, 2, inventory=Inventory(prefixes=frozenset(made)), capacity=TERMS)
    assert len(first.arms) > 1.3 * len(second.arms)


def test_arms_that_are_compared_with_each_other_stay_together():
    preset = load_preset("llama-3.1-405b")
    quantized, drafted = (variant for variant in preset.variants if variant.compare_to is not None)
    assert drafted.compare_to == quantized.name, "the preset is a chain"
    twin = quantized.model_copy(update={"name": "twin", "label": "twin"})
    first, second = parts_of(preset.model_copy(update={"variants": (*preset.variants, twin)}), 2)
    assert (first.arms, second.arms) == ((quantized.name, drafted.name), ("twin",))
    assert [variant.name for variant in second.plan.experiment.variants] == [quantized.compare_to, "twin"]


@pytest.mark.parametrize(
    ("preset", "overrides", "nodes", "says"),
    [
        ("qwen3-32b-tuning", {}, 2, "an adaptive sweep chooses each arm by the results"),
        ("qwen3-32b", {}, 2, "one group of arms for 2 nodes"),
        ("llama-3.1-405b", {}, 2, "one group of arms for 2 nodes"),
        ("qwen3-32b-tuning", {"sweep": "grid"}, 23, "22 groups of arms for 23 nodes"),
        ("account-check", {}, 2, "takes no node with devices"),
    ],
)
def test_what_cannot_be_split_is_refused_with_what_to_do(preset, overrides, nodes, says):
    with pytest.raises(ExperimentError) as caught:
        parts_of(load_preset(preset, overrides=overrides), nodes)
    (problem,) = caught.value.problems
    assert says in problem.message and problem.field == "--nodes" and problem.fix


def test_a_part_that_cannot_run_here_is_refused():
    with pytest.raises(ExperimentError, match=r"trn2\.3xlarge"):
        plan_parts(TUNING, 2, inventory=Inventory(), capacity=Capacity(node="trn2.3xlarge", nodes=4))


def test_a_published_figure_stays_with_both_of_its_arms():
    preset = load_preset("qwen3-32b-tuning", overrides={"sweep": "grid"})
    figure = {"by": "AWS", "base": "base", "variant": preset.variants[-1].name, "source": "x",
              "figures": {preset.workload.cases[0].name: {"ttft": {"p50": [2.0, 1.0]}}}}  # fmt: skip
    with_figure = from_document({**preset.model_dump(mode="json"), "published": [figure]})
    first, second = parts_of(with_figure, 2)
    assert (len(first.plan.experiment.published), len(second.plan.experiment.published)) == (0, 1)
