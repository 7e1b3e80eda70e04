"""What a run costs: no estimate is cut to a deadline, every preset fits its own, and what it could cost at most."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from specdecode.analysis.advice.sweep import first_steps
from specdecode.cli.experiments_view import cost_lines
from specdecode.experiment import Capacity, from_document, load_preset, preset_names, prices
from specdecode.experiment.shapes import COMPILER
from specdecode.experiment.standing import standing_parts, standing_price
from specdecode.planning import Inventory, make_bill, needed_prefixes
from specdecode.planning.events import HISTORY_LIMIT, longest_node_minutes
from specdecode.planning.timeline import COUNT_MINUTES, HEALTHY_SHARE
from specdecode.planning.waves import SweepStep

from tests.plans import PRICED, plan_for

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def plan_of(name, *, overrides=None, inventory=None):
    plan = load_preset(name, overrides=overrides)
    return plan_for(plan, inventory=inventory or Inventory(), now=NOW, capacity=PRICED)


def bill_of(name, *, capacity=None, **given):
    return make_bill(plan_of(name, **given), capacity or Capacity())


@pytest.mark.parametrize("name", preset_names())
def test_the_deadlines_of_every_preset_fit_its_own_estimates_and_the_history(name):
    plan = plan_of(name)
    deadlines = plan.experiment.deadlines
    for arm in plan.timeline.arms:
        if plan.engine.artifact:
            assert arm.compiling.high <= deadlines.compile * HEALTHY_SHARE, arm.variant
        assert arm.load.high <= deadlines.serve, arm.variant
    assert sum(load.longest.high for load in plan.timeline.loads) <= deadlines.benchmark
    of_the_backstop = "longest_run_hours"
    assert not [text for text in plan.warnings if "deadline" in text and of_the_backstop not in text]
    assert plan.worst_case_events <= HISTORY_LIMIT


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"deadlines.compile": 300}, "base (and 2 more) may take 771 min to compile; deadlines.compile is 300 min, of "
         "which it has 240: it may not finish; raise it to 964"),
        ({"deadlines.compile": 100}, "base (and 2 more) takes at least 232 min to compile; deadlines.compile is 100 "
         "min, of which it has 80: it will not finish; raise it to 964"),
        ({"deadlines.serve": 150}, "base may take 237 min to load; deadlines.serve is 150 min: it may not finish; "
         "raise it to 237"),
        ({"deadlines.benchmark": 60}, "the load of 1 case, 50 requests may take 68 min to measure; "
         "deadlines.benchmark is 60 min: it may not finish; raise it to 68, or measure fewer cases"),
        ({"deadlines.benchmark": 5}, "deadlines.benchmark is 5 min: it will not finish; raise it to 68, or measure"),
    ],
)  # fmt: skip
def test_an_estimate_beyond_its_deadline_is_warned_of_with_both_numbers_and_is_not_cut_to_it(overrides, says):
    plan, roomy = plan_of("llama-3.1-405b", overrides=overrides), plan_of("llama-3.1-405b")
    assert [text for text in plan.warnings if says in text], plan.warnings
    assert plan.node_hours == roomy.node_hours


def test_what_is_compiled_already_is_not_warned_of():
    plan = plan_of("llama-3.1-405b")
    made = Inventory(prefixes=frozenset(needed_prefixes(plan.experiment, plan.engine)))
    done = plan_of("llama-3.1-405b", overrides={"deadlines.compile": 300}, inventory=made)
    assert not [text for text in done.warnings if "compile" in text]


@pytest.mark.parametrize("name", preset_names())
def test_the_longest_run_is_longer_than_any_estimate_and_all_its_deadlines_on_the_node(name):
    plan = plan_of(name)
    longest = longest_node_minutes(plan.steps, poll_s=plan.poll_seconds) / 60
    assert longest > plan.node_hours.high
    waited = sum(step.deadline_minutes for step in plan.steps if step.name not in ("Plan", "StageModels"))
    assert longest * 60 > waited
    bill = make_bill(plan, Capacity())
    assert bill.most >= longest * plan.price_per_node_hour + bill.staging.low
    assert bill.to_accept == (bill.most if bill.most > 500 else None)


def test_a_longer_deadline_costs_more_at_most_and_a_queue_costs_nothing():
    hour = bill_of("qwen3-32b", overrides={"deadlines.benchmark": 120}).most - bill_of("qwen3-32b").most
    assert hour == pytest.approx(prices.TRN2_48XLARGE.usd), "half an hour in each of two waves"
    staging = bill_of("qwen3-32b", overrides={"deadlines.staging": 240}).most - bill_of("qwen3-32b").most
    assert staging == pytest.approx(prices.STAGING_MOST.usd)


def test_weights_come_through_the_nat_gateway_once_and_stay_in_s3():
    small, large = bill_of("qwen3-32b"), bill_of("llama-3.1-405b")
    assert small.staging.low == pytest.approx(3.15, abs=0.02)
    assert large.staging.low == pytest.approx(55.4, abs=0.1)
    gb = (61.1 + 3.8 + 61.1 + 64.9) * 1.073741824  # target and draft; the artifacts of base and of target with draft
    assert (small.storage_gb, small.storage_per_month) == pytest.approx((gb, gb * 0.023))
    plan = plan_of("qwen3-32b")
    staged = Inventory(prefixes=frozenset(model.prefix for model in plan.models))
    assert bill_of("qwen3-32b", inventory=staged).staging.high == 0
    assert bill_of("rehearsal").staging_gb == 0


def bill_elsewhere(capacity=None, **overrides):
    """Of two servers that already run."""
    document = {
        "name": "elsewhere", "title": "t", "engine": "rehearsal-cpu",
        "variants": [{"name": "a", "label": "A", "endpoint": "https://a.example"},
                     {"name": "b", "label": "B", "compare_to": "a", "endpoint": "https://b.example"}],
    }  # fmt: skip
    experiment = from_document({"extends": "rehearsal", **document}, overrides=overrides)
    plan = plan_for(experiment, now=NOW)
    return plan, make_bill(plan, capacity or Capacity())


def test_servers_that_already_run_cost_no_node_but_their_clients_until_their_deadlines():
    plan, bill = bill_elsewhere()
    assert (bill.node_hours.high, bill.longest_node_hours, bill.to_accept) == (0, 0, None)
    waited = sum(step.deadline_minutes for step in plan.steps) / 60
    assert waited >= 1 and bill.most == bill.beside_at_most > waited * prices.STAGING_MOST.usd
    assert f"at most   ${bill.most:,.2f} for CPU nodes" in "\n".join(cost_lines(bill))


@pytest.mark.parametrize("reservation", [None, "cr-0123456789abcdef0"])
def test_clients_of_two_weeks_need_consent_whatever_the_terms_of_the_node(reservation):
    capacity = Capacity(reservation=reservation)
    rounds = {"workload.rounds": 14, "deadlines.benchmark": 1380}
    plan, bill = bill_elsewhere(capacity, **rounds)
    hours = sum(step.deadline_minutes for step in plan.steps if step.name == "Benchmark") / 60
    assert hours == 322 and bill.to_accept == bill.most > hours * prices.STAGING_MOST.usd


def test_the_pool_of_cpu_nodes_costs_no_more_than_the_price_of_its_limit():
    """A node whose price by the vCPU is known is the dearest of its families."""
    assert COMPILER.name.split(".")[0] == prices.STAGING_FAMILIES[-1]
    per_cpu = COMPILER.prices["us-east-2"].usd / COMPILER.vcpus
    assert prices.STAGING_MOST.usd == pytest.approx(prices.STAGING_CPUS * per_cpu)
    assert prices.STAGING_NODE_HIGH.usd / 32 < per_cpu, "m6id"


def test_prompts_that_are_fetched_and_counted_cost_cpu_nodes_also_if_every_model_is_there():
    """Of prompts of a length of their own, as LLMPerf's, nothing is counted."""
    costs = []
    for kind in ("text", "line"):
        given = {"workload.cases": [{"name": "why", "label": "Why", "kind": kind, "text": "Why?", "structured": False}]}
        first = plan_of("qwen3-32b", overrides=given)
        made = Inventory(prefixes=frozenset(needed_prefixes(first.experiment, first.engine)))
        bill = bill_of("qwen3-32b", overrides=given, inventory=made)
        costs.append(bill.beside_at_most)
    own, lines = costs
    assert own > (first.experiment.deadlines.staging + COUNT_MINUTES) / 60 * prices.STAGING_MOST.usd
    assert lines < 1, "metrics alone"


def test_metrics_in_cloudwatch_are_counted_as_if_each_wave_had_hours_of_its_own():
    case = {"kind": "text", "text": "Why?", "structured": False}
    cases = [{"name": f"c{number}", "label": f"C{number}", **case} for number in range(1000)]
    few, many = (
        bill_elsewhere(**{"workload.cases": cases[:count], "workload.concurrency": list(range(1, 13))})[1]
        for count in (1, 1000)
    )
    series = 2 * 999 * (11 * 14 + 8)  # arms, cases; names x (12 levels and two places), and what is compared
    assert many.most - few.most == pytest.approx(series * prices.METRIC.usd / 730)
    assert many.most - few.most > 100


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "on-demand"),
        ({"reservation": "cr-0123456789abcdef0"}, "odcr"),
        ({"reservation": "cr-0123456789abcdef0", "block_end": NOW + timedelta(days=1)}, "capacity-block"),
    ],
)
def test_a_reservation_is_no_on_demand_and_a_run_on_one_adds_only_its_staging(given, kind):
    capacity = Capacity(**given, accept_cost_above=60)
    bill = bill_of("llama-3.1-405b", capacity=capacity)
    assert (capacity.type, bill.capacity) == (kind, kind)
    assert bill.to_accept == pytest.approx(bill.most if kind == "on-demand" else 116.67, abs=0.1)
    (terms,) = [text for text in bill.assumptions if "one trn2.48xlarge" in text]
    assert ("on demand" in terms) == (kind == "on-demand")


def test_prices_are_stated_once_each_with_page_and_unit():
    assert len({price.what for price in prices.PRICES}) == len(prices.PRICES)
    assert {prices.STAGING_MOST, *prices.SYSTEM_NODES.values()} < set(prices.PRICES)
    for price in prices.PRICES:
        assert price.usd > 0 and price.unit and price.source.startswith("aws.amazon.com/")


def test_what_stands_there_is_named_and_counted():
    parts = {part.what: part.usd_per_hour for part in standing_parts()}
    assert parts["1 public IPv4 address of NAT"] == 0.005
    assert parts["1 NAT gateway, without traffic"] == 0.045
    assert {"Container Insights", "logs of control plane, network and pods"} <= set(parts)
    assert math.isclose(sum(parts.values()), standing_price()) and Capacity().resting_price_per_hour == standing_price()
    more = standing_parts(gateways=3, endpoints=9, keys=2)
    assert standing_price(more) - standing_price() == pytest.approx(2 * 0.05 + 9 * 0.01 + 1 / 730)
    assert standing_price(standing_parts(system_node_type="m7i.large")) < standing_price()


def test_rounds_after_the_first_are_in_the_bill_with_what_they_take_alone():
    """A round loads both servers again and measures again: that, and no compile, no start of a node."""
    bill, single = bill_of("qwen3-32b"), bill_of("qwen3-32b", overrides={"workload.rounds": 1})
    timeline = plan_of("qwen3-32b").timeline
    again = timeline.most_minutes("Serve", 1) + timeline.most_minutes("Benchmark", 1)
    assert (bill.rounds, single.rounds) == (2, 1)
    assert bill.more_rounds.high * 60 == pytest.approx(again)
    assert bill.node_hours.low - bill.more_rounds.low == pytest.approx(single.node_hours.low)
    assert bill.node_hours.high - bill.more_rounds.high == pytest.approx(single.node_hours.high)
    assert (single.more_rounds.low, single.more_rounds.high) == (0, 0)


def test_rounds_after_the_first_of_a_sweep_are_those_of_all_its_steps():
    """A test of an arm's accuracy is none of them: it comes once, with its first round."""
    asked = {"accuracy": True}
    twice, once = (bill_of("qwen3-32b-tuning", overrides={"workload.rounds": rounds, **asked}) for rounds in (2, 1))
    for at in ("low", "high"):
        first = getattr(twice.node_hours, at) - getattr(twice.more_rounds, at)
        assert first == pytest.approx(getattr(once.node_hours, at))
    assert twice.more_rounds.low > 0


def test_the_presets_of_one_comparison_need_nobodys_consent():
    for name in ("qwen3-32b", "qwen3-32b-latency", "rehearsal"):
        assert bill_of(name).to_accept is None, name


def test_a_forecast_from_an_earlier_run_costs_at_most_two_dollars_and_serves_no_target():
    """On the node that the preset names for it, at its published price; a setting of the user comes before it."""
    answers, large = (
        {"answers": "qwen3-32b-20260901-120000-1a2b"},
        {"node": "m7i.24xlarge", "engine": "0.32.0-cpu-large"},
    )
    whole, plan, larger = (
        plan_for(load_preset("qwen3-32b-forecast", overrides=given)) for given in ({}, answers, answers | large)
    )
    assert [item.model.id for item in plan.models] == ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"]
    assert (plan.experiment.node, plan.price_per_node_hour) == ("m7i.4xlarge", prices.M7I_4XLARGE.usd)
    bill, most = make_bill(plan, Capacity()), make_bill(whole, Capacity())
    assert bill.node.high + bill.staging.high <= 2.0 < most.node.high
    assert bill.most < most.most
    assert whole.experiment.node == larger.experiment.node == "m7i.24xlarge"
    assert from_document({"extends": "qwen3-32b-forecast", **answers}).node == "m7i.4xlarge"


@pytest.mark.parametrize("more", [(), (0, 0), (1, 2, 1), (3, 2, 1, 0, 3, 2, 1)])
def test_a_resumed_sweep_could_cost_no_more_than_its_first_step_shows(more):
    """`specdecode run --resume` shows the bill of the first step alone; Plan has all steps so far."""
    sweep = load_preset("rehearsal-sweep")
    arms = [variant.name for variant in sweep.variants if variant.compare_to]
    first = first_steps(sweep)
    steps = (*first, *(SweepStep(arm=arms[at], reason="") for at in more))
    shown, planned = (make_bill(plan_for(sweep, sweep=each), PRICED).added for each in (first, steps))
    assert planned <= shown
