"""An adaptive sweep, step by step: the advisor extends the plan, once for each measured wave, and ends it."""

import json
from datetime import timedelta

import pytest
from specdecode import names
from specdecode.planning import Plan
from specdecode.planning.waves import MORE_STEPS
from specdecode.steps import advise, damage, release, report, setbacks
from specdecode.steps.errors import CompileFailed
from specdecode.steps.run import load_run

from tests.finished_folders import mark
from tests.specdecode.benchmark import making
from tests.specdecode.steps.faults import CRASHED, waiting
from tests.specdecode.steps.world import WAITING, World

SWEEP = {"experiment": "rehearsal-sweep"}
TOKENS, STEP_S = 60, 0.02
ACCEPTANCE, DRAFT_COST = 0.6, 0.2


def steps_and_seconds(k: int) -> tuple[float, float]:
    """Tokens per step and seconds a request of an arm that drafts `k` tokens, as the theory has it."""
    tokens = (1 - ACCEPTANCE ** (k + 1)) / (1 - ACCEPTANCE)
    return tokens, TOKENS / tokens * STEP_S * (1 + DRAFT_COST * k)


class Measured(World):
    """A world whose benchmark leaves records behind. `slower`: by how much all arms slow down from wave to wave."""

    slower = 1.0

    def finish(self, step, run_id="run-1", wave=0):
        before = self.time
        seen = super().finish(step, run_id, wave)
        if step == "Benchmark" and self.time > before:
            self.measure(run_id, wave)
        return seen

    def stored(self, run_id="run-1") -> Plan:
        return Plan.model_validate_json(self.s3.objects[f"runs/{run_id}/plan.json"])

    def measure(self, run_id, wave):
        plan = self.stored(run_id)
        for arm in plan.waves[wave].arms:
            speculation = plan.experiment.variant(arm.variant).speculation
            tokens, seconds = steps_and_seconds(speculation.num_speculative_tokens if speculation else 0)
            seconds *= self.slower**wave
            for case in plan.experiment.workload.cases:
                key = f"runs/{run_id}/raw/{arm.variant}/{case.name}.jsonl"
                lines = [
                    record(run_id, arm, case.name, index, round(TOKENS / tokens), seconds).model_dump_json()
                    for index in range(6)
                ]
                self.s3.objects[key] = self.s3.objects.get(key, b"") + ("\n".join(lines) + "\n").encode()


def record(run_id, arm, case, index, steps, seconds):
    end = seconds * (1 + index / 500 + len(arm.variant) / 1000)
    times = [end * (at + 1) / steps for at in range(steps)]
    return making.record(
        times, tokens=TOKENS, run_id=run_id, variant=arm.variant, case=case, index=index, round=arm.round,
        sent_s=10.0 * index, prompt_sha256=f"{index:064d}", output="the same " * 16,
    )  # fmt: skip


@pytest.fixture(scope="module")
def swept():
    world = Measured()
    world.run_through(request=SWEEP)
    release.release(world.given("run-1"), world.rt)
    return world


def test_it_measures_each_arm_beside_the_base_until_the_advisor_says_stop(swept):
    plan = swept.stored()
    assert plan.sweep.is_over
    assert len(plan.waves) == len(plan.sweep.arms) >= 2
    for number, wave in enumerate(plan.waves):
        assert (wave.index, wave.round) == (number, number)
        assert [arm.variant for arm in wave.arms] == ["base", plan.sweep.arms[number]]
    assert "Stop" in plan.sweep.steps[-1].reason or "measured" in plan.sweep.steps[-1].reason
    assert len(plan.waves) <= 4 + MORE_STEPS
    best = max((2, 4, 6, 8), key=lambda k: 1 / steps_and_seconds(k)[1])
    assert f"sd-k{best}" in plan.sweep.arms


def test_the_report_says_why_and_compares_each_arm_with_the_base_of_its_round(swept):
    document = swept.report()
    assert [step["arm"] for step in document["context"]["sweep"]] == [*swept.stored().sweep.arms, None]
    page = swept.s3.objects["runs/run-1/report.html"].decode()
    listed = page.partition("What the advisor decided")[2].partition("</ul>")[0]
    assert listed.count("<li>") == len(document["context"]["sweep"])
    assert document["context"]["sweep"][-1]["reason"] in listed
    assert all(f">k={k}</th>" in page for k in (2, 4, 6, 8))
    assert {pair["cases"][0]["pairs"] for pair in document["pairs"]} == {6}
    assert sum("was not measured" in note for note in document["notes"]) == 0


def first_wave(world):
    assert world.plan(request=SWEEP) == 1
    for step in WAITING:
        world.finish(step)


def test_a_retried_step_appends_once():
    world = Measured()
    assert world.plan(request=SWEEP) == 1
    assert advise.advise(world.given("run-1"), world.rt).waves == 1, "the planned wave is not measured yet"
    for step in WAITING:
        world.finish(step)
    again = [advise.advise(world.given("run-1", wave=0), world.rt).waves for _ in range(3)]
    assert again == [2, 2, 2]


def test_a_failed_write_leaves_the_old_plan_and_the_retry_appends():
    world = Measured()
    first_wave(world)

    def broken(operation, key):
        if operation == "PutObject" and key.endswith("plan.json"):
            raise ConnectionError

    world.s3.before, fine = broken, world.s3.before
    with pytest.raises(ConnectionError):
        advise.advise(world.given("run-1"), world.rt)
    world.s3.before = fine
    assert len(world.stored().waves) == 1
    assert advise.advise(world.given("run-1"), world.rt).waves == 2


def test_a_resumed_sweep_goes_on_where_the_failed_one_was(swept):
    world = Measured()
    first_wave(world)
    advise.advise(world.given("run-1"), world.rt)
    world.clean_up(CompileFailed("crashed"))
    world.run_through("run-2", request={"resume": "run-1"})
    assert world.stored("run-2").sweep.arms == swept.stored().sweep.arms
    records = world.s3.objects["runs/run-2/raw/base/meaning-of-life.jsonl"].splitlines()
    assert len(records) == 6 * len(world.stored("run-2").waves), "nothing was measured twice"


def test_a_resumed_sweep_with_all_waves_measured_asks_before_capacity_is_taken():
    world = Measured()
    first_wave(world)
    world.clean_up(CompileFailed("the function was killed"))
    assert world.plan("run-2", {"resume": "run-1"}) == 2
    assert "measured" not in world.finish("AcquireCapacity", "run-2")[-1].message


def test_a_finished_sweep_resumed_needs_no_node(swept):
    waves = swept.plan("run-again", {"resume": "run-1"})
    assert waves == len(swept.stored().waves)
    assert "no node is needed" in swept.finish("AcquireCapacity", "run-again")[-1].message


def test_it_ends_before_the_reservation_does():
    world = Measured()
    end = world.time + timedelta(hours=3)
    world.rt.environ["CAPACITY"] = json.dumps({"block_start": world.time.isoformat(), "block_end": end.isoformat()})
    first_wave(world)
    world.time = end - timedelta(minutes=42)
    assert advise.advise(world.given("run-1"), world.rt).waves == 1
    assert "would not fit" in world.stored().sweep.steps[-1].reason


def test_figures_that_cannot_be_compared_end_it(world):
    first_wave(world)
    assert advise.advise(world.given("run-1"), world.rt).waves == 1


class Failing(Measured):
    """A world in which some arms cannot be compiled, and the pods of others crash when they serve."""

    def __init__(self, *, compiles=(), serves=()):
        super().__init__()
        self.cannot = {"compile": set(compiles), "serving": set(serves)}

    def _is_hopeless(self, obj):
        labels = obj["metadata"]["labels"]
        return labels.get(names.VARIANT_LABEL) in self.cannot.get(labels[names.COMPONENT_LABEL], ())

    def _job(self, job):
        self.job_fails = {"compile": 70} if self._is_hopeless(job) else {}
        super()._job(job)

    def _pod(self, owner, *, ready):
        self.trouble = {"serving": crash} if self._is_hopeless(owner) else {}
        try:
            return super()._pod(owner, ready=ready)
        finally:
            self.trouble = {}

    def sweep(self, run_id="run-1", request=SWEEP):
        self.run_through(run_id, request=request)
        release.release(self.given(run_id), self.rt)
        report.report(self.given(run_id), self.rt)
        return json.loads(self.s3.objects[f"runs/{run_id}/report.json"])


crash = waiting("CrashLoopBackOff", **CRASHED)


@pytest.mark.parametrize(("component", "error"), [("compiles", "CompileFailed"), ("serves", "ServeNotReady")])
def test_it_goes_on_without_an_arm_that_cannot_be_had(swept, component, error):
    lost = swept.stored().sweep.arms[0]
    world = Failing(**{component: {lost}})
    document = world.sweep()
    steps = world.stored().sweep
    assert steps.is_over
    assert steps.arms.count(lost) == 1
    assert len(set(steps.arms)) >= 3, "another arm was asked for in its place"
    assert lost not in {pair["variant"] for pair in document["pairs"] if pair["cases"]}
    (failure,) = document["context"]["failures"]
    assert (failure["stage"], failure["variant"]) == (error, lost)
    assert failure["diagnostics"] == f"diagnostics/{lost}/"
    assert "resume" in failure["message"] if component == "compiles" else "keeps ending" in failure["message"]
    found = json.loads(world.s3.objects[f"runs/run-1/diagnostics/{lost}/diagnosis.json"])
    assert found["row"] == ("job-failed" if component == "compiles" else "crash-loop")
    assert (world.workloads(), world.replicas) == ([], 0)


def test_nothing_is_served_in_the_wave_of_a_lost_arm(swept):
    lost = swept.stored().sweep.arms[1]
    world = Failing(compiles={lost})
    world.sweep()
    (wave,) = [wave for wave in world.stored().waves if lost in {arm.variant for arm in wave.arms}]
    made = [path for method, path in world.cluster.requests if method == "PATCH" and "/deployments/" in path]
    assert made
    assert not [path for path in made if f"-w{wave.index}-" in path]


def test_a_resumed_sweep_tries_the_lost_arm_again(swept):
    lost = swept.stored().sweep.arms[1]
    world = Failing(compiles={lost})
    world.sweep()
    world.cannot["compile"].clear()
    document = world.sweep("run-2", {"resume": "run-1"})
    assert lost in {pair["variant"] for pair in document["pairs"]}
    assert document["context"]["failures"] == []


def test_a_retried_step_loses_an_arm_once(swept):
    lost = swept.stored().sweep.arms[0]
    world = Failing(compiles={lost})
    world.plan(request=SWEEP)
    for step in ("StageModels", "AcquireCapacity"):
        world.finish(step)
    for _ in range(3):
        world.finish("Compile")
    assert len(world.record().failures) == 1


def test_a_lost_arm_does_not_unsay_what_the_same_look_found(swept):
    world = Failing()
    world.plan(request=SWEEP)
    folder, run = "compiled/x/", load_run(world.rt.store, "run-1")
    world.s3.objects |= {f"{folder}COMPLETE.json": mark(folder, {"gone": b"x"})}
    assert not damage.is_there(folder, run, world.rt)
    arm = next(arm for wave in run.plan.waves for arm in wave.arms if arm.variant != "base")
    setbacks.go_on_without(arm, CompileFailed("no"), run=run, rt=world.rt)
    assert [failure.stage for failure in world.record().failures] == ["DamagedFolder", "CompileFailed"]


@pytest.mark.parametrize("hopeless", [{"base"}, {"sd-k2", "sd-k4", "sd-k6", "sd-k8"}], ids=["baseline", "every arm"])
def test_without_a_baseline_or_any_arm_it_fails(hopeless):
    world = Failing(compiles=hopeless)
    with pytest.raises(CompileFailed) as caught:
        world.sweep()
    world.clean_up(caught.value)
    assert world.replicas == 0


def test_a_node_that_slows_down_during_the_sweep_changes_no_verdict():
    world = Measured()
    world.slower = 1.6
    world.run_through(request=SWEEP)
    release.release(world.given("run-1"), world.rt)
    document = world.report()
    (base,) = [item for item in document["drift"] if item["variant"] == "base"]
    assert base["shown"]
    for pair in document["pairs"]:
        k = int(pair["variant"].removeprefix("sd-k"))
        true = steps_and_seconds(0)[1] / steps_and_seconds(k)[1]
        (total,) = [group for group in pair["groups"] if group["group"] == "all"]
        assert total["speedups"][0]["ratio"] == pytest.approx(true, rel=0.02)
        assert (total["verdict"] == "pays") == (true > 1.02)
