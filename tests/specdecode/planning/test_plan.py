"""Waves, what is missing, how long and how much: from the presets and from what lies in the bucket."""

import ast
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from specdecode import planning
from specdecode.experiment import Capacity, ExperimentError, load_engine, load_preset, preset_names, prices
from specdecode.experiment.workload import Workload
from specdecode.finished import content
from specdecode.planning import Inventory, Plan, make_bill, needed_prefixes, read_inventory
from specdecode.planning.events import (
    EVENTS_PER_LOOK,
    EVENTS_PER_VISIT,
    EVENTS_PER_WAVE,
    HISTORY_LIMIT,
    INTERVALS_S,
    STILL_ATTENTIVE,
    fewest_events,
    worst_case_events,
)
from specdecode.planning.ranges import Range
from specdecode.planning.timeline import ACCURACY_MINUTES, Step
from specdecode.planning.warnings import check_backstop
from specdecode.pod.accuracy import SAMPLES
from specdecode.steps.run import attentive

from tests.finished_folders import entries, mark, stored
from tests.plans import PRICED, plan_for
from tests.specdecode.steps.aws_fake import FakeS3

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def told(plan):
    """Its warnings, but for the one of the engine's support, which is tested apart."""
    return [text for text in plan.warnings if "support" not in text]


def plan_of(name, *, inventory=None, overrides=None, **kwargs):
    kwargs = {"capacity": PRICED, **kwargs}
    return plan_for(load_preset(name, overrides=overrides), inventory=inventory or Inventory(), now=NOW, **kwargs)


def waves(plan):
    return [(wave.round, [arm.variant for arm in wave.arms]) for wave in plan.waves]


@pytest.mark.parametrize("name", preset_names())
def test_every_plan_is_json_and_holds_the_whole(name):
    plan = plan_of(name)
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    served = {arm.variant for wave in plan.waves for arm in wave.arms}
    if plan.sweep is None:
        assert served == {variant.name for variant in plan.experiment.variants}
    for wave in plan.waves:
        assert len(wave.arms) * plan.experiment.serving.devices <= plan.experiment.shape.devices
        assert {(arm.wave, arm.round) for arm in wave.arms} == {(wave.index, wave.round)}
    assert plan.worst_case_events < HISTORY_LIMIT
    assert plan.attentive_seconds <= plan.poll_seconds <= 60
    assert 0 < plan.cost.low < plan.cost.high == pytest.approx(plan.node_hours.high * prices.TRN2_48XLARGE.usd)


@pytest.mark.parametrize("name", ["qwen3-32b-load", "qwen3-32b-tuning", "llama-3.1-405b"])
def test_parts_and_levels_are_the_time_of_all_benchmarks_and_the_node_is_held_for_all_steps(name):
    plan = plan_of(name, overrides={"accuracy": True})
    steps = [step for step in plan.steps if not step.fallback]
    measuring = sum(step.takes.high for step in steps if step.name == "Benchmark") / 60
    for parts in (plan.parts, plan.levels):
        assert sum(part.node_hours.high for part in parts) == pytest.approx(measuring)
    assert plan.node_hours.high == pytest.approx(sum(step.takes.high for step in steps) / 60)
    loads = {arm.variant: arm.load.high for arm in plan.timeline.arms}
    for wave in plan.waves:
        slowest = max(loads[arm.variant] for arm in wave.arms)
        assert plan.timeline.most_minutes("Serve", wave.index) == slowest, "they load side by side"
    certain = [step for step in steps if (step.wave or 0) < plan.timeline.certain]
    assert plan.node_hours.low == pytest.approx(sum(step.takes.low for step in certain) / 60)
    assert (len(certain) < len(steps)) == (plan.sweep is not None)


def test_a_plan_of_an_earlier_version_is_read_and_knows_no_times():
    old = plan_of("rehearsal").model_dump(mode="json", exclude={"timeline"})
    old |= {"steps": [{"name": "Plan", "expected_minutes": 0}], "compiling": None, "assumptions": ["so"]}
    plan = Plan.model_validate(old)
    assert plan.steps == () and plan.timeline.most_minutes("Benchmark", 0) == 0


def test_times_are_made_in_one_place():
    """What else wants a time reads the timeline: it takes no engine and no waves to make it again."""
    folder = Path(planning.__file__).parent
    found = {
        f"{path.name}:{node.name}"
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and {"engine", "waves"} <= {each.arg for each in node.args.args}
    }
    assert "timeline.py:make_timeline" in found and {name.split(":")[0] for name in found} == {"timeline.py"}
    assert [path.name for path in folder.glob("*.py") if "cpu_deadline(" in path.read_text()] == ["timeline.py"]


def test_an_engine_that_compiles_nothing_has_no_artifacts_no_time_for_them_and_nothing_to_look_for():
    plan = plan_of("rehearsal-vllm")
    assert plan.artifacts == () and plan.compiles_to_do == ()
    assert [step.deadline_minutes for step in plan.steps if step.name == "Compile"] == [0]
    assert any("nothing is compiled" in line for line in make_bill(plan, PRICED).assumptions)
    assert not [p for p in needed_prefixes(plan.experiment, plan.engine) if p.startswith("compiled/")]


def test_arms_that_fit_together_are_one_wave_and_rounds_swap_their_order():
    assert waves(plan_of("qwen3-32b", overrides={"workload.rounds": 1})) == [(0, ["base", "sd"])]
    rounds = waves(plan_of("qwen3-32b", overrides={"workload.rounds": 3}))
    assert rounds == [(0, ["base", "sd"]), (1, ["sd", "base"]), (2, ["base", "sd"])]
    assert waves(plan_of("qwen3-32b")) == [(0, ["base", "sd"]), (1, ["sd", "base"])]
    alone = {"serving.devices": 16, "serving.tensor_parallel_size": 64}
    assert plan_of("qwen3-32b", overrides=alone).experiment.rounds == 1, "each has the whole node"
    assert plan_of("qwen3-32b-tuning").experiment.rounds == 1, "all arms of a sweep have the same group"
    assert plan_of("qwen3-32b-tuning", overrides={"sweep": "grid"}).experiment.rounds == 2


def test_arms_that_need_a_wave_each_measure_the_base_again_at_the_end():
    assert waves(plan_of("qwen3-32b-latency")) == [(0, ["base"]), (0, ["sd"]), (1, ["base"])]
    rounds = waves(plan_of("qwen3-32b-latency", overrides={"workload.rounds": 2}))
    assert rounds == [(0, ["base"]), (0, ["sd"]), (1, ["sd"]), (1, ["base"])], "A-B-B-A: drift weighs on both alike"
    assert waves(plan_of("llama-3.1-405b"))[-1] == (1, ["base"])
    got = waves(plan_of("qwen3-32b-tuning", overrides={"sweep": "grid", "workload.rounds": 1}))
    assert len(got) == 12
    assert got[0] == (0, ["base", "sd-qwen3-0.6b-k5"])
    assert got[-1] == (1, ["sd-qwen3-1.7b-k15", "base"])


def test_what_is_complete_is_neither_staged_nor_compiled_nor_paid_for():
    empty = plan_of("qwen3-32b")
    finished = frozenset((empty.models[0].prefix, empty.artifacts[1].prefix))
    half = plan_of("qwen3-32b", inventory=Inventory(prefixes=finished))
    assert [m.id for m in half.models_to_stage] == ["Qwen/Qwen3-1.7B"]
    assert [a.variant for a in half.compiles_to_do] == ["base"]
    assert half.node_hours.high < empty.node_hours.high
    assert half.worst_case_events < empty.worst_case_events
    everything = frozenset(needed_prefixes(empty.experiment, empty.engine))
    full = plan_of("qwen3-32b", inventory=Inventory(prefixes=everything))
    assert not full.models_to_stage and not full.compiles_to_do
    plan = plan_of("qwen3-32b-latency", overrides={"workload.rounds": 2})
    assert [arm.variant for arm in plan.compiles_to_do] == ["base", "sd"]
    compiles = [s.deadline_minutes for s in plan.steps if s.name == "Compile"]
    assert compiles == [100, 100, 0, 0]


def test_the_sweep_looks_less_often_so_that_the_history_holds_it():
    plan = plan_of("qwen3-32b-tuning")
    assert plan.poll_seconds == 60
    assert plan_of("rehearsal").poll_seconds == 15


def test_waves_that_no_history_can_hold_are_refused_at_once():
    """240 waves may fit if all goes fast: a warning, and an interval. 460 cannot."""
    grid = {"sweep": "grid", "workload.rounds": 20}
    plan = plan_of("qwen3-32b-tuning", overrides=grid)
    assert plan.poll_seconds == INTERVALS_S[-1] and any("split the experiment" in text for text in plan.warnings)
    with pytest.raises(ExperimentError, match="460 waves make at least"):
        plan_of("qwen3-32b-tuning", overrides=grid | {"serving.devices": 16, "serving.tensor_parallel_size": 64})


def test_accuracy_is_planned_and_paid_for_once_an_arm():
    plain, tested = (plan_of("qwen3-32b-latency", overrides={"accuracy": accuracy}) for accuracy in (False, True))
    steps = [(s.wave, s.deadline_minutes) for s in tested.steps if s.name == "Accuracy"]
    assert steps == [(0, ACCURACY_MINUTES), (1, ACCURACY_MINUTES)]
    assert not [s for s in plain.steps if s.name == "Accuracy"]
    more = (tested.node_hours.high - plain.node_hours.high) * 60
    seconds = load_engine("0.9.1-sdk2.26.1").estimates.seconds_per_output_token[1]
    assert more == pytest.approx(2 * SAMPLES * 256 * seconds / 60)
    minutes = {}
    for batch in (25, SAMPLES, 2 * SAMPLES):
        plan = plan_of("qwen3-32b", overrides={"accuracy": True, "serving.max_num_seqs": batch})
        minutes[batch] = next(step.takes.high for step in plan.steps if step.name == "Accuracy")
    assert minutes[25] / 2 == pytest.approx(minutes[SAMPLES]) == minutes[2 * SAMPLES]


@pytest.mark.parametrize(
    ("begins", "ends", "says"),
    [
        (-1, 0.5, "over for new work"), (-1, 1.2, "will not finish"), (-1, 3, "may not finish"), (-1, 24, None),
        (22, 24, "not finish"), (22, 22.5, "is too short: no work begins in it (draining begins 40 minutes before"),
    ],
)  # fmt: skip
def test_the_capacity_block_is_compared_with_the_estimate(begins, ends, says):
    capacity = Capacity(block_start=NOW + timedelta(hours=begins), block_end=NOW + timedelta(hours=ends))
    warnings = told(plan_of("qwen3-32b", capacity=capacity))
    assert [says in w for w in warnings] == ([True] if says else [])


def test_more_load_costs_more_and_the_open_loop_lasts_as_its_rate_says():
    experiment = load_preset("qwen3-32b", overrides={"workload.prompts": []})

    def minutes(**load):
        given = experiment.workload.model_dump(exclude={"concurrency"} if "rate" in load else set())
        workload = Workload.model_validate({**given, **load})
        changed = experiment.model_copy(update={"workload": workload})
        return plan_for(changed, now=NOW).node_hours.scaled(60)

    assert minutes(requests=80).high > minutes().high
    until = minutes(requests={"min": 8, "max": 80, "precision": 0.05})
    assert (until.low, until.high) == (minutes(requests=8).low, minutes(requests=80).high)
    slow = minutes(rate=(0.02,), requests=8)
    assert slow.low - minutes().low == pytest.approx(9 / 0.02 / 60 * 10 * 2 * 2, rel=0.1), "two arms in two waves"


def test_what_a_batch_cannot_take_at_once_waits_in_the_open_loop_too_and_no_load_is_shorter_than_a_request():
    def takes(**load):
        overrides = {f"workload.{name}": value for name, value in {"concurrency": 1, "requests": 79, **load}.items()}
        return [each.takes for each in plan_for(load_preset("llama-3.1-8b-eagle3", overrides=overrides)).timeline.loads]

    batch = load_preset("llama-3.1-8b-eagle3").batch
    assert takes(rate=1000) == takes(concurrency=batch)
    assert takes(rate=0.01)[0].low == pytest.approx(80 / 0.01 / 60 * 3 * 3 * 2), "cases, arms and rounds"
    assert takes(requests=1, warmup_requests=0, concurrency=batch) == takes(requests=1, warmup_requests=0)


def test_a_folder_is_there_only_if_a_listing_shows_no_damage():
    s3 = FakeS3({"models/a@1/x": b"12", "models/a@1/COMPLETE.json": mark("models/a@1/", {"x": b"34"})})
    wanted = ["models/a@1/", "models/b@1/", "state/engines/1.json"]

    def found() -> frozenset[str]:
        return read_inventory(s3, bucket="b", prefixes=wanted).prefixes

    assert found() == {"models/a@1/"}
    s3.objects |= {"models/b@1/COMPLETE.json": s3.objects["models/a@1/COMPLETE.json"], "state/engines/1.json": b"{}"}
    assert found() == {"models/a@1/", "state/engines/1.json"}, "b has the COMPLETE.json of a"
    for key, body in (("models/a@1/extra", b""), ("models/a@1/x", b"123"), ("models/a@1/COMPLETE.json", b"{}")):
        before = dict(s3.objects)
        s3.objects[key] = body
        assert found() == {"state/engines/1.json"}, key
        s3.objects = before
    s3.objects = {"models/a@1/COMPLETE.json": mark("models/a@1/", {})}
    assert not found(), "a list of no files"


def test_a_plan_has_the_hash_of_what_is_there_and_one_of_an_earlier_version_still_loads():
    empty = plan_of("qwen3-32b")
    there = [empty.models[0].prefix, empty.artifacts[1].prefix]
    s3 = FakeS3(stored(there[0]) | stored(there[1]))
    plan = plan_of("qwen3-32b", inventory=read_inventory(s3, bucket="b", prefixes=[*there, empty.models[1].prefix]))
    hashes = [content(entries({"part-0.bin": b"part"})), None]
    written = json.loads(plan.model_dump_json())
    assert [each["content"] for each in (*written["models"], *reversed(written["artifacts"]))] == hashes * 2
    for each in (*written["models"], *written["artifacts"]):
        del each["content"]
    assert Plan.model_validate(written).models_to_stage == plan.models_to_stage


def test_the_shortest_history_counts_what_every_step_and_every_wave_adds():
    one = [Step(name="Serve", wave=0, deadline_minutes=90), Step(name="Benchmark", wave=0, deadline_minutes=240)]
    two = [*one, *(step.model_copy(update={"wave": 1}) for step in one)]
    each = EVENTS_PER_VISIT + 2 * EVENTS_PER_LOOK
    assert fewest_events(one) == 2 * each + EVENTS_PER_WAVE
    assert fewest_events(two) == 2 * fewest_events(one)
    assert fewest_events([*one, Step(name="Compile", wave=0, deadline_minutes=120)]) == (
        fewest_events(one) + EVENTS_PER_VISIT + EVENTS_PER_LOOK
    )
    more, fewer = (worst_case_events(steps, poll_s=60, attentive_s=15) for steps in (two, one))
    assert more - fewer > EVENTS_PER_WAVE + 3 * (90 + 240)


def test_looks_are_close_together_while_an_end_is_expected_as_far_as_the_history_allows():
    plan = plan_of("qwen3-32b")
    assert (plan.attentive_seconds, plan.poll_seconds) == (15, 15)
    expected = {step.name: step.takes.high for step in plan.steps if step.wave in (None, 0)}
    assert expected["Benchmark"] == pytest.approx(sum(load.longest.high for load in plan.timeline.loads))
    assert expected["AcquireCapacity"] == 15 < expected["Benchmark"]
    assert expected["Smoke"] == expected["StageModels"] == 0
    quick = Step(name="Benchmark", wave=0, deadline_minutes=100, takes=Range(high=20))
    late = quick.model_copy(update={"takes": Range(high=500)})
    of_minutes = {m: worst_case_events([s], poll_s=60, attentive_s=15) for m, s in ((20, quick), (500, late))}
    more = of_minutes[500] - of_minutes[20]
    assert more // 3.5 < 79 * 3 <= more // 3, "four a minute for 21 of 100 minutes, or for all"
    fewer = of_minutes[20] - worst_case_events([quick], poll_s=60, attentive_s=60)
    assert fewer // 3.5 < 21 * 3 <= fewer // 3
    three = [Step(name="Compile", wave=0, deadline_minutes=100, takes=Range(high=20), works=3)]
    more = worst_case_events(three, poll_s=60, attentive_s=15) - of_minutes[20]
    assert 3 * (2 * 3 + 2) <= more < 4 * (2 * 3 + 2), "a minute for each"


def test_work_of_seconds_is_looked_at_often_though_its_pod_takes_longer_to_start_than_it_lasts():
    plan = plan_of("rehearsal").model_copy(update={"poll_seconds": 60})
    minutes = timedelta(minutes=0.1)
    assert attentive(plan, minutes + STILL_ATTENTIVE, expected_min=0.1) == plan.attentive_seconds == 15
    assert (
        attentive(plan, minutes + STILL_ATTENTIVE + timedelta(seconds=1), expected_min=0.1) == plan.poll_seconds == 60
    )


@pytest.mark.parametrize(("preset", "hours"), [("llama-3.1-405b", 64), ("qwen3-32b-tuning", 52)])
def test_a_run_that_the_backstop_would_cut_is_warned_of_with_what_to_set(preset, hours):
    """Its deadlines together are longer than a run may hold the node: 48 and 12 hours by default."""
    (said,) = [text for text in plan_of(preset).warnings if "backstop" in text]
    assert "ends a node 60 h after a run got it (longest_run_hours 48 + 12)" in said
    assert f"configure longest_run_hours={hours}`" in said
    assert not [w for w in plan_of(preset, capacity=Capacity(longest_run_hours=hours)).warnings if "backstop" in w]
    assert [w for w in plan_of(preset, capacity=Capacity(longest_run_hours=hours - 1)).warnings if "backstop" in w]


def test_a_run_that_cannot_be_over_before_the_backstop_is_told_so():
    (said,) = check_backstop(20 * 60, Range(low=14, high=19), Capacity(longest_run_hours=1))
    assert "takes at least 14.0 h: it will not finish; `.venv/bin/specdecode configure longest_run_hours=8`" in said
