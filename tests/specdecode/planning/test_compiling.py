"""Plans with `compile.on: cpu`: what is compiled where, both prices, and an upper bound that has the way back in it."""

import pytest
from specdecode import names, s3_keys
from specdecode.cli.experiments_view import cost_lines
from specdecode.experiment import Capacity, load_preset
from specdecode.experiment.shapes import COMPILER, COMPILERS
from specdecode.manifests import compile_job
from specdecode.planning import Inventory, Plan, make_bill
from specdecode.planning.events import HISTORY_LIMIT, longest_node_minutes
from specdecode.planning.timeline import Timeline, depth

from tests.plans import CTX, plan_for

PRICE = COMPILER.price_in("us-east-2").usd


def plan_of(on: str, preset: str = "qwen3-32b", *, inventory: Inventory | None = None, **more: object) -> Plan:
    experiment = load_preset(preset, overrides={"compile.on": on, **more})
    return plan_for(experiment, inventory=inventory or Inventory())


def stored(*made: str) -> Inventory:
    return Inventory(prefixes=frozenset(map(s3_keys.compiled_prefix, made)))


def test_the_expected_cost_of_the_node_lacks_all_compiling_and_its_bound_has_more():
    here, ahead = plan_of("accelerator"), plan_of("cpu")
    cost, same = (make_bill(plan, Capacity()).compiling for plan in (here, ahead))
    assert cost and same and cost.here == same.here
    assert here.cost.high - ahead.cost.high == pytest.approx(cost.here.high)
    assert here.cost.low - ahead.cost.low == pytest.approx(cost.here.low)
    before, after = (longest_node_minutes(plan.steps, poll_s=60) for plan in (here, ahead))
    again = ahead.experiment.deadlines.serve + 15 + 2
    assert after - before == pytest.approx(2 * again, abs=2), "each artifact: served in vain, and stopped"


def test_the_bill_shows_both_prices_and_only_the_chosen_one_is_in_its_bound():
    here, ahead = (make_bill(plan_of(on), Capacity()) for on in ("accelerator", "cpu"))
    assert here.on_cpu_at_most == 0 and ahead.on_cpu_at_most > 0
    assert ahead.most >= ahead.longest_node_hours * ahead.price_per_node_hour + ahead.on_cpu_at_most
    assert ahead.compiling and ahead.compiling.on_cpu.high <= ahead.on_cpu_at_most
    jobs, deadline = 2, 2 * 100  # qwen3-32b's deadlines.compile, twice on a CPU node
    ended = 15 / 60 + 17 + 15  # a look, the diagnosis, the end of its pods
    assert ahead.on_cpu_at_most == pytest.approx(jobs * (deadline + ended + 10) / 60 * PRICE)
    shown = "\n".join(cost_lines(here))
    assert "--set compile.on=cpu" in shown and "unproven" in shown and "$28 to $93" in shown
    shown = "\n".join(cost_lines(ahead))
    assert "beside the node" in shown and "on the node it would be $28 to $93" in shown
    capacity = Capacity(reservation="cr-0123456789abcdef0", accept_cost_above=20)
    bill = make_bill(plan_of("cpu"), capacity)
    assert bill.to_accept == bill.beside_at_most > bill.staging.low + bill.on_cpu_at_most


@pytest.mark.parametrize(("preset", "deadline"), [("rehearsal", None), ("qwen3-32b", 10), ("qwen3-32b", 1)])
def test_no_more_is_expected_of_cpu_nodes_than_their_deadlines_let_them_cost(preset, deadline):
    plan = plan_of("cpu", preset, **({"deadlines.compile": deadline} if deadline else {}))
    found = make_bill(plan, Capacity()).compiling
    assert found and 0 < found.on_cpu.low <= found.on_cpu.high <= found.on_cpu_at_most


def test_no_price_is_shown_where_the_engine_has_one_way_or_nothing_is_missing():
    assert make_bill(plan_of("accelerator", "qwen3-32b-native"), Capacity()).compiling is None
    ahead = plan_of("cpu")
    done = plan_of("cpu", inventory=stored(*(arm.fingerprint for arm in ahead.waves[0].arms)))
    assert make_bill(done, Capacity()).compiling is None and done.compiles_to_do == ()


def test_an_arm_takes_what_the_node_has_compiled_where_there_is_such_a_thing():
    here = {arm.variant: arm.fingerprint for arm in plan_of("accelerator").waves[0].arms}
    ahead = plan_of("cpu", inventory=stored(here["base"]))
    for wave in ahead.waves:
        arms = {arm.variant: arm for arm in wave.arms}
        assert (arms["base"].fingerprint, arms["base"].fallback) == (here["base"], "")
        assert arms["sd"].fingerprint != here["sd"] and arms["sd"].fallback == here["sd"]
    assert [artifact.compiled for artifact in ahead.artifacts] == [True, False]
    steps = [(step.name, step.works) for step in ahead.steps if step.name == "CompileOnCpu"]
    assert steps == [("CompileOnCpu", 1)]


def test_the_steps_are_before_the_node_and_the_way_back_is_marked():
    plan = plan_of("cpu")
    order = [step.name for step in plan.steps]
    assert order.index("CompileOnCpu") < order.index("AcquireCapacity")
    back = [step for step in plan.steps if step.fallback]
    assert [step.name for step in back] == ["Serve", "StopArms", "Compile"] * 2, "once for each artifact"
    assert {step.wave for step in back} == {0}, "where they are served first"
    assert not [step for step in plan.steps if step.name == "Compile" and not step.fallback]
    assert plan.worst_case_events <= HISTORY_LIMIT
    plan = plan_of("accelerator")
    assert not [arm for wave in plan.waves for arm in wave.arms if arm.fallback]
    assert not [step for step in plan.steps if step.fallback or step.name == "CompileOnCpu"]


@pytest.mark.parametrize(("artifacts", "expected"), [(0, 0), (1, 1), (COMPILERS, 1), (COMPILERS + 1, 2)])
def test_cpu_nodes_take_turns_beyond_their_number(artifacts, expected):
    assert depth(artifacts) == expected


def test_the_job_runs_without_devices_on_a_cpu_node_and_knows_what_a_whole_artifact_is():
    plan = plan_of("cpu").model_copy(update={"timeline": Timeline()})  # as in the plan of an earlier version
    (arm,) = (arm for arm in plan.waves[0].arms if arm.variant == "sd")
    job = compile_job(plan, arm, CTX).job
    spec = job["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"karpenter.sh/nodepool": names.COMPILE_NODEPOOL}
    assert "resourceClaims" not in spec
    assert [each["key"] for each in spec["tolerations"]] == [names.DYNAMIC_TAINT]
    first, engine = spec["initContainers"]
    assert "/dev/neuron" not in first["command"][2] and "df -Pk" in first["command"][2]
    assert {"name": "NEURON_PLATFORM_TARGET_OVERRIDE", "value": "trn2"} in engine["env"]
    script = engine["command"][2]
    for path in ("neuron_config.json", "model.pt", "weights/tp31_sharded_checkpoint.safetensors"):
        assert f"--leaves {path}" in script
    assert job["spec"]["activeDeadlineSeconds"] == (200 + 20) * 60
    for container in (first, engine, *spec["containers"]):
        assert float(container["resources"]["requests"]["cpu"]) <= COMPILER.cpu
        assert int(container["resources"]["requests"]["memory"].removesuffix("Gi")) <= COMPILER.memory_gib
