"""Several nodes share a run's arms: who measures what, what the whole takes, and how many nodes to take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from specdecode.experiment import Capacity, load_engine, load_preset
from specdecode.experiment.shares import share_of, shares
from specdecode.planning import Inventory, best_nodes, by_nodes, make_bill, make_plan, needed_prefixes, plan_run
from specdecode.planning.events import HISTORY_LIMIT, longest_node_minutes

GRID = {"sweep": "grid"}
EMPTY = Inventory()
BLOCK = Capacity(
    nodes=4,
    reservation="cr-1",
    block_start=datetime(2026, 12, 1, tzinfo=UTC),
    block_end=datetime(2026, 12, 3, tzinfo=UTC),
)


def tuning(nodes):
    return load_preset("qwen3-32b-tuning", overrides={**GRID, "nodes": nodes})


@pytest.mark.parametrize("nodes", [2, 3, 8, 16])
def test_every_arm_is_in_one_share_and_all_are_about_as_large(nodes):
    experiment = tuning(nodes)
    found = shares(experiment, nodes)
    compared = [variant.name for variant in experiment.variants if variant.compare_to]
    assert len(found) == nodes and sorted(name for share in found for name in share) == sorted(compared)
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_a_share_has_the_baselines_that_its_arms_are_compared_with_and_is_for_one_node():
    experiment = tuning(4)
    arms = shares(experiment, 4)[2]
    part = share_of(experiment, arms)
    assert [variant.name for variant in part.variants] == ["base", *arms]
    assert (part.nodes, part.workload, part.serving) == (1, experiment.workload, experiment.serving)


def test_arms_that_are_compared_with_each_other_stay_together():
    chain = load_preset("llama-3.1-405b")
    assert [variant.compare_to is None for variant in chain.variants].count(True) == 1
    ends = {variant.name: variant.compare_to for variant in chain.variants}
    linked = [name for name, before in ends.items() if before and ends[before]]
    assert len(shares(chain, 8)) == 2 - len(linked)


def test_only_what_is_left_is_shared_out():
    experiment = tuning(4)
    (share,) = shares(experiment, 4, arms={"sd-qwen3-0.6b-k7"})
    assert share == ("sd-qwen3-0.6b-k7",)
    assert plan_run(experiment, inventory=EMPTY, arms=set()).units == ()


def test_the_whole_is_the_sum_of_its_parts_and_at_most_counts_a_second_try_of_each():
    experiment = tuning(4)
    stored = Inventory(prefixes=frozenset(model.prefix for model in experiment.staged))
    whole = plan_run(experiment, inventory=stored)
    parts = [make_plan(share_of(experiment, unit.arms), inventory=stored) for unit in whole.units]
    assert whole.cost.high == pytest.approx(sum(part.cost.high for part in parts))
    assert whole.node_hours.low == pytest.approx(sum(part.node_hours.low for part in parts))
    bill, bills = make_bill(whole, Capacity()), [make_bill(part, Capacity()) for part in parts]
    assert bill.most == pytest.approx(2 * sum(each.most for each in bills))
    assert bill.longest_node_hours == pytest.approx(2 * sum(each.longest_node_hours for each in bills))
    assert bill.longest_hours == pytest.approx(2 * max(each.longest_node_hours for each in bills))
    assert [unit.most for unit in whole.units] == [each.most for each in bills]
    assert longest_node_minutes(whole.steps, poll_s=whole.poll_seconds) == 0, "the run itself holds no node"


def test_models_are_staged_once_and_by_the_whole_run():
    experiment = tuning(2)
    whole, one = plan_run(experiment, inventory=EMPTY), make_plan(tuning(1), inventory=EMPTY)
    assert whole.models == one.models and whole.models_to_stage
    assert make_bill(whole, Capacity()).staging == make_bill(one, Capacity()).staging
    assert {item.fingerprint for item in whole.artifacts} == {item.fingerprint for item in one.artifacts}


def test_staging_is_paid_once_and_compiling_on_cpu_nodes_for_every_try():
    for changes in ({}, {"compile.on": "cpu"}):
        experiment = load_preset("qwen3-32b-tuning", overrides={**GRID, "nodes": 2, **changes})
        stored = Inventory(prefixes=frozenset(model.prefix for model in experiment.staged))
        one = experiment.model_copy(update={"nodes": 1})
        staging = [make_bill(plan_run(one, inventory=has), Capacity()).most for has in (EMPTY, stored)]
        most = [make_bill(plan_run(experiment, inventory=has), Capacity()).most for has in (EMPTY, stored)]
        # The one node's plan looks less often, so that a Job may be later: minutes of a CPU node.
        assert most[0] - most[1] == pytest.approx(staging[0] - staging[1], abs=10)
        whole = plan_run(experiment, inventory=stored)
        parts = [make_plan(share_of(experiment, unit.arms), inventory=stored) for unit in whole.units]
        assert most[1] == pytest.approx(2 * sum(make_bill(part, Capacity()).most for part in parts))


@pytest.mark.parametrize("nodes", [2, 8, 16])
def test_22_arms_stay_within_the_history_on_any_number_of_nodes(nodes):
    experiment = tuning(nodes)
    whole = plan_run(experiment, inventory=EMPTY)
    assert whole.worst_case_events <= HISTORY_LIMIT
    for unit in whole.units:
        assert make_plan(share_of(experiment, unit.arms), inventory=EMPTY).worst_case_events <= HISTORY_LIMIT


def test_more_nodes_are_faster_and_cost_more_so_that_one_is_cheapest_and_a_block_takes_all_of_its():
    rows = by_nodes(tuning(1), inventory=EMPTY, capacity=Capacity())
    assert [row.nodes for row in rows] == [1, 2, 4, 8]
    assert [row.hours.high for row in rows] == sorted((row.hours.high for row in rows), reverse=True)
    assert [row.cost.high for row in rows] == sorted(row.cost.high for row in rows)
    assert best_nodes(rows, Capacity()).nodes == 1
    assert best_nodes(rows, BLOCK).nodes == 4


@pytest.mark.parametrize("nodes", [3, 6, 16])
def test_a_block_of_any_size_takes_all_of_its_nodes(nodes):
    block = BLOCK.model_copy(update={"nodes": nodes})
    assert best_nodes(by_nodes(tuning(1), inventory=EMPTY, capacity=block), block).nodes == nodes


def test_a_block_of_more_nodes_than_arms_takes_one_for_each():
    sweep = load_preset("qwen3-32b-tuning", overrides=GRID)
    few = share_of(sweep, [variant.name for variant in sweep.variants if variant.compare_to][:3])
    assert best_nodes(by_nodes(few, inventory=EMPTY, capacity=BLOCK), BLOCK).nodes == 3


def test_what_cannot_be_shared_has_one_row():
    for name in ("qwen3-32b", "account-check"):
        assert [row.nodes for row in by_nodes(load_preset(name), inventory=EMPTY, capacity=Capacity())] == [1]


def test_what_lies_in_the_bucket_counts_for_units_too():
    experiment = tuning(2)
    stored = Inventory(prefixes=frozenset(needed_prefixes(experiment, load_engine(experiment.engine))))
    assert plan_run(experiment, inventory=stored).cost.high < plan_run(experiment, inventory=EMPTY).cost.high


def test_nodes_whose_warnings_differ_in_their_hours_alone_have_one_warning_of_the_longest():
    ends = BLOCK.block_start + timedelta(hours=6)
    block = BLOCK.model_copy(update={"nodes": 8, "block_end": ends})
    plan = plan_run(tuning(8), inventory=EMPTY, capacity=block, now=BLOCK.block_start)
    (said,) = [text for text in plan.warnings if "of the Capacity Block are usable" in text]
    assert f"{max(unit.node_hours.high for unit in plan.units):.1f} h: it may not finish" in said
