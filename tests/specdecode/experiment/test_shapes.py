"""Shapes of nodes: every preset is planned or refused on each, and nothing but their table knows what a node has."""

import io
import tokenize
from datetime import UTC, datetime
from pathlib import Path

import pytest
from specdecode import names
from specdecode.experiment import Capacity, ExperimentError, load_preset, preset_names
from specdecode.experiment.shapes import ORDINARY, SHAPES, TRN2, TRN2_SMALL
from specdecode.planning import make_bill

from tests.plans import PRICED, plan_for

ROOT = Path(__file__).parents[3]
TABLES = {"lambda/specdecode/experiment/shapes.py", "lambda/specdecode/experiment/prices.py"}
CODE = [
    path
    for folder in ("lambda", "constructs_lib", "stacks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if str(path.relative_to(ROOT)) not in TABLES
]
OF_THE_NODE = {"node-engine", "claim-size", "fits-node", "device-memory", "tensor-parallel"}
BLOCK = Capacity(
    node="trn2.48xlarge",
    ami="v20260224",
    price_per_node_hour=30,
    reservation="cr-0123456789abcdef0",
    block_end=datetime(2026, 12, 1, tzinfo=UTC),
)


def loaded(preset: str, node: str, **overrides: object):
    return load_preset(preset, overrides={"node": node, **overrides})


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("node", SHAPES)
def test_every_preset_is_planned_on_every_shape_that_it_fits_and_refused_by_the_node_on_others(preset, node):
    try:
        experiment = loaded(preset, node)
    except ExperimentError as error:
        assert {problem.rule for problem in error.problems} <= OF_THE_NODE, error
        assert load_preset(preset).node != node
        return
    plan = plan_for(experiment, capacity=PRICED)
    assert plan.cost.high == pytest.approx(plan.node_hours.high * PRICED.price_per_node_hour)
    assert make_bill(plan, PRICED).assumptions[0].startswith(f"one {node} ")
    shape = SHAPES[node]
    for wave in plan.waves:
        assert len(wave.arms) * experiment.serving.devices <= shape.devices


@pytest.mark.parametrize(
    ("preset", "overrides", "rule", "words"),
    [
        ("qwen3-32b", {"node": "trn2.3xlarge"}, "claim-size", "has 1 device, and no claim template for 8"),
        ("qwen3-32b", {"node": "m7i.4xlarge"}, "node-engine", "drives Neuron devices, and a m7i.4xlarge has none"),
        ("account-check", {"node": "trn2.48xlarge"}, "claim-size", "16 devices, and no claim template for 0"),
        ("qwen3-32b-native", {"node": "trn2.3xlarge", "serving.devices": 1, "serving.tensor_parallel_size": 4},
         "fits-node", "GiB of memory, and a trn2.3xlarge has 116 to give"),
        ("llama-3.3-70b-fp8-eagle3", {"node": "trn2.3xlarge", "serving.devices": 1, "serving.tensor_parallel_size": 4,
         "target.size_gib": 140}, "device-memory", "do not fit into 96 GiB of device memory"),
        ("qwen3-32b", {"node": "trn2.3xlarge", "serving.devices": 1, "serving.tensor_parallel_size": 4},
         "fits-node", "a trn2.3xlarge has 12 to give"),
        ("account-check", {"target.size_gib": 30}, "fits-node", "GiB of memory, and a m7i.4xlarge has 56 to give"),
        ("qwen3-32b", {"node": "trn2.3xlrge"}, "schema", "did you mean trn2.3xlarge?"),
    ],
)  # fmt: skip
def test_an_arm_that_is_too_big_for_the_node_is_refused(preset, overrides, rule, words):
    with pytest.raises(ExperimentError) as caught:
        load_preset(preset, overrides=overrides)
    assert [problem for problem in caught.value.problems if problem.rule == rule and words in problem.message], caught


def test_a_deployment_has_one_shape_with_devices_and_the_one_without():
    small = Capacity(node="trn2.3xlarge", price_per_node_hour=3)
    with pytest.raises(ExperimentError, match=r"this deployment's node is a trn2\.3xlarge") as caught:
        load_preset("qwen3-32b", capacity=small)
    assert "configure node_type=trn2.48xlarge`" in str(caught.value)
    assert load_preset("llama-3.1-8b-eagle3-small", capacity=small)
    assert load_preset("account-check", capacity=small)
    old = Capacity(node="trn2.3xlarge", price_per_node_hour=3, ami="v20260224")
    with pytest.raises(ExperimentError, match="AMI v20260224 does not suit"):
        load_preset("llama-3.1-8b-eagle3-small", capacity=old)
    assert load_preset("account-check", capacity=old)


def test_a_node_without_a_published_price_is_not_planned_until_somebody_says_one():
    small = load_preset("llama-3.1-8b-eagle3-small")
    with pytest.raises(ExperimentError, match=r"AWS publishes no price of a trn2\.3xlarge in us-east-2") as caught:
        plan_for(small)
    assert caught.value.problems[0].rule == "node-price" and "--price" in caught.value.problems[0].fix
    capacity = Capacity(price_per_node_hour=2.5)
    plan = plan_for(small, capacity=capacity)
    assert "at $2.50 an hour (as you gave it: AWS publishes none)" in make_bill(plan, capacity).assumptions[0]
    assert plan.cost.high == pytest.approx(2.5 * plan.node_hours.high)

    def said(preset, capacity):
        plan = plan_for(load_preset(preset), capacity=capacity)
        return make_bill(plan, capacity).assumptions[0]

    assert "(AWS's list price, seen 2026-05-21)" in said("qwen3-32b", Capacity())
    assert "(as you gave it)" in said("qwen3-32b", PRICED)
    deployed = said("account-check", BLOCK)
    assert deployed.startswith("one m7i.4xlarge on demand at $0.81 an hour (AWS's list price, seen ")


def test_a_reservation_and_its_price_are_of_the_node_with_devices_alone():
    own, other = BLOCK.of("trn2.48xlarge"), BLOCK.of("m7i.4xlarge")
    assert own == BLOCK
    assert (other.type, other.price_per_node_hour, other.ami, other.node_storage) == ("on-demand", 0.8064, None, "ebs")
    assert other.of("m7i.4xlarge") == other
    assert Capacity(region="ap-southeast-4").of("trn2.48xlarge").price_per_node_hour is None
    assert Capacity(region="ap-southeast-4").of("m7i.4xlarge").price_per_node_hour == 0.8064


def test_the_check_of_an_account_costs_about_a_dollar_and_ten_at_most():
    """With an hour of all that stands there, from the tables alone."""
    capacity = Capacity()
    bill = make_bill(plan_for(load_preset("account-check"), capacity=capacity), capacity)
    low = bill.node.low + bill.staging.low + bill.node_hours.low * bill.resting_per_hour
    high = bill.node.high + bill.staging.high + bill.node_hours.high * bill.resting_per_hour
    assert 0.4 < low < high < 1.5
    assert bill.most < 10 and bill.to_accept is None


def test_no_other_module_knows_the_types_by_name():
    """But for the setting whose choices a person reads, held to the table by tests/constructs_lib/test_settings.py."""
    named = {
        str(path.relative_to(ROOT))
        for path in CODE
        for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
        if token.type == tokenize.STRING and token.string.strip("\"'") in SHAPES
    }
    assert named == {"constructs_lib/settings/fields.py"}


def test_no_other_module_counts_devices_or_cores():
    """No 8 or 16 in a line of code that is about devices, cores or claims."""
    found = []
    for path in CODE:
        lines: dict[int, list[tokenize.TokenInfo]] = {}
        for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
            if token.type in (tokenize.NAME, tokenize.NUMBER):
                lines.setdefault(token.start[0], []).append(token)
        for number, tokens in lines.items():
            words = {token.string.lower() for token in tokens if token.type == tokenize.NAME}
            about = any(part in word for word in words for part in ("device", "core", "claim", "neuron"))
            if about and {token.string for token in tokens if token.type == tokenize.NUMBER} & {"8", "16"}:
                found.append(f"{path.relative_to(ROOT)}:{number}: {tokens[0].line.strip()}")
    assert found == ["lambda/specdecode/experiment/claims.py:15: TOPOLOGIES = (4, 8)"] or found == []


def test_pools_taints_and_claims_of_the_shapes_agree():
    assert {shape.pool for shape in SHAPES.values()} == set(names.held_pools(1)) == set(names.TAINTS)
    for shape in (TRN2, TRN2_SMALL):
        assert shape.pool == names.NODEPOOL and max(shape.claims) == shape.devices
        assert all(shape.devices % claim == 0 for claim in shape.claims)
    assert tuple(shape.pool for shape in ORDINARY) == names.ORDINARY_NODEPOOLS
    assert not any(shape.claims for shape in ORDINARY)
    found = {name: load_preset(name).node for name in preset_names()}
    others = {name: node for name, node in found.items() if node != TRN2.name}
    assert others == {
        "account-check": "m7i.4xlarge",
        "qwen3-32b-forecast": "m7i.24xlarge",
        "rehearsal-account-check": "m7i.4xlarge",
        "rehearsal-forecast": "m7i.4xlarge",
        "llama-3.1-8b-eagle3-small": "trn2.3xlarge",
        "gpt-oss-20b-eagle3-small": "trn2.3xlarge",
        "rehearsal-small": "trn2.3xlarge",
    }
