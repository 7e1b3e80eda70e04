"""Every cause for which the node can be paid has a bound, and the pages say the computed one."""

import math
from collections import defaultdict
from pathlib import Path

import pytest
from specdecode.experiment import load_preset, preset_names, prices, shapes
from specdecode.planning.bill import make_bill
from specdecode.planning.events import DIAGNOSE_MINUTES
from specdecode.planning.timeline import BEFORE_THE_NODE, NODE_STOP_MINUTES, STOP_MINUTES

from constructs_lib.pipeline.states import definition
from constructs_lib.settings.fields import Settings
from tests.plans import PRICED, plan_for
from tools.reference import bounds

OPERATIONS = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
WITHOUT_A_NODE = {"StageModels", "CompileOnCpu"}
AFTER_A_FAILURE = {"StopArmsAfterFailure"}
"""StopArms again, whose limit counts on; its tries are in the bounds of what breaks."""


def plan_of(name, **overrides):
    return plan_for(load_preset(name, overrides=overrides), capacity=PRICED)


def test_every_state_that_waits_has_a_deadline_on_the_page():
    states = definition(defaultdict(lambda: "arn"))["States"]
    waits = {name for name, state in states.items() if name in [rule["Next"] for rule in state.get("Catch", ())]}
    all_steps = {"accuracy": True, "start_check": True}
    found = bounds.waiting_bounds(plan_of("qwen3-32b", **all_steps))
    ahead = bounds.waiting_bounds(plan_of("qwen3-32b", **all_steps, **{"compile.on": "cpu"}))
    assert {bound.cause.strip("`") for bound in ahead} == waits - WITHOUT_A_NODE - AFTER_A_FAILURE
    assert {bound.cause.strip("`") for bound in found} == waits - WITHOUT_A_NODE - AFTER_A_FAILURE
    for bound in found:
        assert 0 < bound.minutes < math.inf


def test_a_deadline_that_is_longer_makes_its_step_s_bound_longer():
    def serve(plan):
        return next(bound.minutes for bound in bounds.waiting_bounds(plan) if bound.cause == "`Serve`")

    assert serve(plan_of("qwen3-32b", **{"deadlines.serve": 55})) - serve(plan_of("qwen3-32b")) == 10


def test_a_task_is_given_up_after_its_tries_and_pauses():
    state = definition(defaultdict(lambda: "arn"))["States"]["Compile"]
    assert bounds.longest_minutes(state) * 60 == 6 * 330 + 3 + 6 + 12 + 24 + 48


def test_no_cause_lasts_longer_than_the_backstop_lets_it():
    settings = Settings()
    last = bounds.stuck_bound(settings)
    assert last.minutes == 60 * 60 + 20
    unasked = bounds.unasked_bound(settings)
    assert unasked.minutes == 108 * 60 + 20
    found = [*bounds.causes(settings), *(bounds.run_bound(plan_of(name), settings) for name in preset_names())]
    found.remove(unasked)
    for bound in found:
        assert 0 <= bound.minutes <= last.minutes, bound
    assert bounds.stuck_bound(Settings(longest_run_hours=10)).minutes == last.minutes - 38 * 60


@pytest.mark.parametrize(
    "word", ["fails or hangs", "stopped", "queue", "NodeClaim", "unreadable", "watchdog is dead", "API", "together"]
)
def test_the_causes_that_were_promised_have_a_row(word):
    assert any(word in bound.cause for bound in bounds.causes(Settings()))


def test_nodes_that_compile_are_counted_all():
    price = shapes.COMPILERS * prices.R6ID_24XLARGE.usd
    rows = [bound for bound in bounds.causes(Settings()) if bound.usd_per_hour == pytest.approx(price)]
    assert len(rows) == 2 and "compile" in rows[0].cause and "the same" in rows[1].cause
    assert f"up to {shapes.COMPILERS} {shapes.COMPILER.name}" in " ".join(bounds.render().split())


def test_dollars_are_minutes_at_the_node_s_price():
    assert bounds.Bound("c", "e", 90).usd == pytest.approx(1.5 * prices.TRN2_48XLARGE.usd)


@pytest.mark.parametrize("name", ["qwen3-32b", "gpt-oss-120b-eagle3"])
def test_the_page_says_what_plan_and_run_show(name):
    plan = plan_of(name)
    shown = make_bill(plan, PRICED)
    assert bounds.run_bound(plan, Settings()).minutes == pytest.approx(60 * shown.longest_node_hours)
    after = sum(step.deadline_minutes for step in plan.steps if step.name not in BEFORE_THE_NODE)
    assert shown.longest_node_hours * 60 > after + DIAGNOSE_MINUTES + STOP_MINUTES + NODE_STOP_MINUTES.high


def test_operations_says_the_computed_bounds():
    settings = Settings()
    run = bounds.run_bound(plan_of("qwen3-32b"), settings)
    dies = next(bound for bound in bounds.causes(settings) if "is stopped" in bound.cause)
    broken = next(bound for bound in bounds.causes(settings) if "together" in bound.cause)
    text = " ".join(OPERATIONS.split())
    assert f"a run of the default preset {run.minutes / 60:.1f} h (${run.usd:.0f})" in text
    assert f"a run that dies {dies.minutes:.0f} min, a broken cluster {broken.minutes / 60:.1f} h" in text
    assert f"nothing longer than {bounds.stuck_bound(settings).minutes / 60:.1f} h" in text
    assert f"({bounds.unasked_bound(settings).minutes / 60:.1f} h if AWS does not answer" in text
