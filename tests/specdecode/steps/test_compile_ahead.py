"""Compiling without the accelerator: before the node, side by side, and on the node what does not load."""

import json
import re
from datetime import timedelta

import pytest
from specdecode import names, s3_keys
from specdecode.cli.runs_deployment import Execution
from specdecode.cli.runs_view import lines, view
from specdecode.experiment import load_preset
from specdecode.experiment.model import CompileOn
from specdecode.experiment.shapes import COMPILERS
from specdecode.planning.measured_with import mixed
from specdecode.steps import compile as compiling
from specdecode.steps import release, serve
from specdecode.steps.errors import ArtifactRefused, CompileFailed, ServeNotReady
from specdecode.steps.report import compiled, served
from specdecode.steps.run import load_run

from tests.specdecode.steps.faults import waiting
from tests.specdecode.steps.test_report import forget, record
from tests.specdecode.steps.world import World

REQUEST = {"experiment": "rehearsal", "set": {"compile.on": "cpu", "workload.rounds": 1}}

TWO_ROUNDS = {"experiment": "rehearsal", "set": {"compile.on": "cpu", "workload.rounds": 2}}


def ahead(world: World, run_id: str = "run-1") -> list[str]:
    """Ask CompileOnCpu until it is done; its messages."""
    seen: list[str] = []
    for _ in range(50):
        answer = compiling.compile_arms(world.given(run_id, ahead=True), world.rt)
        seen.append(answer.message)
        if answer.done:
            return seen
        world.time += timedelta(seconds=answer.wait_s)
    raise AssertionError(seen)


def compile_jobs(world: World) -> list[dict]:
    return [job for job in world.cluster.all("Job") if job["metadata"]["labels"][names.COMPONENT_LABEL] == "compile"]


def crashing(exit_code: int, *, of: str):
    """The fate of serving pods: those of variant `of` end again and again."""
    last = {"terminated": {"exitCode": exit_code, "reason": "Error"}}
    ended = waiting("CrashLoopBackOff", restartCount=3, lastState=last)
    return lambda pod: ended(pod) if pod["metadata"]["labels"][names.VARIANT_LABEL] == of else None


def before_serve(world: World, request=REQUEST) -> None:
    world.plan(request=request)
    world.finish("StageModels")
    ahead(world)
    world.finish("AcquireCapacity")


def refused(world: World) -> None:
    """No server of sd starts from what a CPU node has compiled."""
    before_serve(world)
    world.trouble["serving"] = crashing(1, of="sd")
    with pytest.raises(ArtifactRefused, match="sd does not start from the artifact"):
        world.finish("Serve")
    del world.trouble["serving"]


def test_all_artifacts_are_compiled_side_by_side_on_cpu_nodes_before_the_node_is_taken(world):
    world.plan(request=REQUEST)
    world.finish("StageModels")
    world.trouble["compile"] = lambda pod: None
    first = compiling.compile_arms(world.given("run-1", ahead=True), world.rt)
    assert not first.done
    jobs = compile_jobs(world)
    assert len(jobs) == 2
    for job in jobs:
        spec = job["spec"]["template"]["spec"]
        assert spec["nodeSelector"] == {"karpenter.sh/nodepool": names.COMPILE_NODEPOOL}
        assert "resourceClaims" not in spec
        assert [each["key"] for each in spec["tolerations"]] == [names.DYNAMIC_TAINT]
    assert (world.replicas, world.rt.lease.read().claims) == (0, ())
    del world.trouble["compile"]
    assert ahead(world)[-1] == "2 artifacts are ready, compiled on CPU nodes"
    assert (world.replicas, world.rt.lease.read().claims) == (0, ())


def test_a_run_whose_artifacts_load_compiles_nothing_on_the_node(world):
    before_serve(world)
    jobs = len(compile_jobs(world))
    mark = next(key for key in world.s3.objects if key.startswith("compiled/"))
    gone = world.s3.objects.pop(mark)
    (looked,) = world.finish("Compile")
    assert looked.message == "CPU nodes have compiled all", "Serve finds out whether they load"
    assert len(compile_jobs(world)) == jobs
    world.s3.objects[mark] = gone
    world.finish("Serve")
    assert all(
        job["spec"]["template"]["spec"]["nodeSelector"] == {"karpenter.sh/nodepool": names.COMPILE_NODEPOOL}
        for job in compile_jobs(world)
    )
    state = world.record()
    assert state.refused_artifacts == ()


def test_no_more_are_compiled_at_a_time_than_there_may_be_nodes(world):
    preset = load_preset("rehearsal").model_dump(mode="json", exclude_defaults=True)
    base, sd = (next(each for each in preset["variants"] if each["name"] == name) for name in ("base", "sd"))
    more = [
        {**sd, "name": f"sd-k{k}", "label": f"k={k}", "speculation": {**sd["speculation"], "num_speculative_tokens": k}}
        for k in range(2, 8)
    ]
    document = {"extends": "rehearsal", "name": "many", "compile": {"on": "cpu"}, "variants": [base, *more]}
    world.plan(request={"experiment": document, "accept_cost": 600})
    world.finish("StageModels")
    world.trouble["compile"] = lambda pod: None
    answer = compiling.compile_arms(world.given("run-1", ahead=True), world.rt)
    assert len(compile_jobs(world)) == COMPILERS
    assert f"{7 - COMPILERS} wait for a CPU node" in answer.message
    del world.trouble["compile"]
    ahead(world)
    assert len([key for key in world.s3.objects if re.fullmatch("compiled/.*/COMPLETE.json", key)]) == 7


def test_an_artifact_that_does_not_load_is_compiled_on_the_node_and_the_other_arm_keeps_its_own(world):
    refused(world)
    state = world.record()
    assert (len(state.refused_artifacts), state.sent_back) == (1, (0,))
    assert state.failures[0].variant == "sd"
    assert [key for key in world.s3.objects if "diagnostics/sd-compiled-on-cpu/" in key]
    world.finish("StopArms")
    assert world.workloads() == []
    world.finish("Compile")
    (job,) = compile_jobs(world)
    spec = job["spec"]["template"]["spec"]
    assert job["metadata"]["labels"][names.VARIANT_LABEL] == "sd"
    assert spec["resourceClaims"] and "karpenter.sh/nodepool" not in spec["nodeSelector"]
    world.finish("Serve")
    scripts = {}
    for deployment in world.cluster.all("Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        scripts[deployment["metadata"]["labels"][names.VARIANT_LABEL]] = container["command"][2]
    assert state.refused_artifacts[0] not in scripts["sd"]
    after = world.record()
    assert after is not None and (after.sent_back, after.refused_artifacts) == ((), state.refused_artifacts)


def test_report_and_status_say_where_each_artifact_was_compiled_and_the_report_which_was_served(world):
    refused(world)
    run = load_run(world.rt.store, "run-1")
    found = {each.variant: (each.on, each.refused) for each in compiled(run)}
    assert found == {"base": (CompileOn.CPU, False), "sd": (CompileOn.ACCELERATOR, True)}
    arms = {arm.variant: arm for arm in run.plan.waves[0].arms}
    artifacts = {each.variant: each.artifact for each in served(run, bucket="s3://b/")}
    assert artifacts["base"] == f"s3://b/compiled/{arms['base'].fingerprint}/"
    assert artifacts["sd"] == f"s3://b/compiled/{arms['sd'].fallback}/"
    (recipe,) = (each.recipe for each in served(run, bucket="s3://b/") if each.variant == "sd")
    assert arms["sd"].fallback in recipe and arms["sd"].fingerprint not in recipe
    execution = Execution(run_id="run-1", arn="a", status="RUNNING", started="2026-08-01T12:00:00+00:00", stopped=None)
    shown = lines(view(execution, [], run.state, run.plan, now=world.time))
    assert "  compiled    sd on the node: what a CPU node had compiled did not load" in shown


def test_serve_that_was_cut_off_after_it_noted_the_refusal_says_it_again(world):
    before_serve(world)
    world.trouble["serving"] = crashing(1, of="base")
    for _ in range(2):
        with pytest.raises(ArtifactRefused):
            serve.serve(world.given("run-1"), world.rt)
    state = world.record()
    assert len(state.refused_artifacts) == 1


@pytest.mark.parametrize("code", [73, 75])
def test_a_node_that_is_not_as_it_must_be_is_no_fault_of_the_artifact(world, code):
    before_serve(world)
    world.trouble["serving"] = crashing(code, of="base")
    with pytest.raises(ServeNotReady):
        world.finish("Serve")


def test_an_artifact_that_has_been_served_and_measured_is_not_refused_in_a_later_round(world):
    before_serve(world, {"experiment": "rehearsal", "set": {"compile.on": "cpu", "workload.rounds": 2}})
    for step in ("Serve", "Smoke", "Benchmark", "StopArms"):
        world.finish(step)
    world.trouble["serving"] = crashing(1, of="sd")
    with pytest.raises(ServeNotReady):
        world.finish("Serve", wave=1)
    state = world.record()
    assert (state.measured, state.refused_artifacts) == ((0,), ())


def test_a_compile_that_fails_on_a_cpu_node_fails_the_run_before_the_node_is_taken(world):
    world.plan(request=REQUEST)
    world.finish("StageModels")
    world.job_fails["compile"] = 1
    with pytest.raises(CompileFailed, match=r"base: .* \(on a CPU node, before the node was taken; --set compile.on"):
        ahead(world)
    assert world.replicas == 0
    world.clean_up(CompileFailed("x"))
    assert world.workloads() == []


def test_what_a_server_with_devices_has_compiled_is_taken_by_a_run_that_wants_cpu_nodes(world):
    world.run_through("run-1", request={"experiment": "rehearsal", "set": {"workload.rounds": 1}})
    release.release(world.given("run-1"), world.rt)
    made = {key for key in world.s3.objects if key.startswith("compiled/")}
    world.plan("run-2", request=REQUEST)
    world.finish("StageModels", "run-2")
    assert ahead(world, "run-2") == ["nothing is compiled on CPU nodes"]
    world.finish("AcquireCapacity", "run-2")
    world.finish("Serve", "run-2")
    assert {key for key in world.s3.objects if key.startswith("compiled/")} == made


def test_what_cpu_nodes_have_compiled_is_found_by_the_next_plan(world):
    before_serve(world)
    world.plan("run-2", request=REQUEST)
    plan = load_run(world.rt.store, "run-2").plan
    assert [artifact.compiled for artifact in plan.artifacts] == [True, True]
    assert "CompileOnCpu" not in [step.name for step in plan.steps]


def halfway(world: World) -> None:
    """run-1 of two rounds; it ends when the first is measured, with what CPU nodes have compiled."""
    before_serve(world, TWO_ROUNDS)
    for step in ("Serve", "Smoke", "Benchmark", "StopArms"):
        world.finish(step)
    world.clean_up(CompileFailed("x"))


def resumed_until_serve(world: World) -> None:
    world.plan("run-2", {"resume": "run-1"})
    world.finish("StageModels", "run-2")
    ahead(world, "run-2")
    world.finish("AcquireCapacity", "run-2")
    world.finish("Compile", "run-2", 1)


def as_told(world: World, run_id: str) -> tuple[dict[str, tuple[CompileOn, bool]], list[str], list[str]]:
    """Where each arm's artifact was compiled, the artifacts that serve them again, and the notes of several."""
    run = load_run(world.rt.store, run_id)
    again = [one.artifact.removeprefix("s3://b/compiled/")[:-1] for one in served(run, bucket="s3://b/")]
    return {one.variant: (one.on, one.refused) for one in compiled(run)}, again, list(mixed(run.measured_arms))


@pytest.mark.parametrize("is_older", [False, True])
def test_a_resumed_run_that_takes_the_node_s_artifacts_tells_of_both(world, is_older):
    """Another run has made them meanwhile. `is_older`: an older version, which noted no arms, wrote the record."""
    halfway(world)
    if is_older:
        forget(world, "run-1", "measured_arms")
    cpu = {arm.variant: arm.fingerprint for arm in load_run(world.rt.store, "run-1").wave(0).arms}
    world.run_through("run-9", request={"experiment": "rehearsal", "set": {"workload.rounds": 1}})
    world.clean_up(CompileFailed("x"), "run-9")
    resumed_until_serve(world)
    assert as_told(world, "run-2")[2] == [], "nothing is measured with the node's yet"
    for step in ("Serve", "Smoke", "Benchmark", "StopArms"):
        world.finish(step, "run-2", 1)
    node = {arm.variant: arm.fingerprint for arm in load_run(world.rt.store, "run-2").plan.waves[1].arms}
    assert {arm.variant: arm.fingerprint for arm in load_run(world.rt.store, "run-2").wave(0).arms} == cpu != node
    told = [
        f"{name} was not measured with one artifact, so that its rounds may differ: fingerprint {cpu[name]} (compiled "
        f"on a CPU node) in round 1; {node[name]} in round 2."
        for name in ("base", "sd")
    ]
    where = dict.fromkeys(("base", "sd"), (CompileOn.ACCELERATOR, False))
    assert as_told(world, "run-2") == (where, [node["base"], node["sd"]], told)
    raw = record("sd", "repeat-line", 0, 1.0, "run-2").model_dump_json().encode()
    world.s3.objects["runs/run-2/raw/sd/repeat-line.jsonl"] = raw + b"\n"
    assert set(told) <= set(world.report("run-2")["notes"])
    world.clean_up(CompileFailed("x"), "run-2")
    world.plan("run-3", {"resume": "run-2"})
    assert as_told(world, "run-3") == as_told(world, "run-2")


def test_an_artifact_that_does_not_load_in_the_resumed_run_has_measured_what_it_has(world):
    halfway(world)
    resumed_until_serve(world)
    world.trouble["serving"] = crashing(1, of="sd")
    with pytest.raises(ArtifactRefused):
        world.finish("Serve", "run-2", 1)
    del world.trouble["serving"]
    for step in ("StopArms", "Compile", "Serve", "Smoke", "Benchmark"):
        world.finish(step, "run-2", 1)
    run = load_run(world.rt.store, "run-2")
    before, after = ({arm.variant: arm.fingerprint for arm in run.wave(index).arms} for index in (0, 1))
    where, _, (told,) = as_told(world, "run-2")
    assert where == {"base": (CompileOn.CPU, False), "sd": (CompileOn.ACCELERATOR, True)}
    assert before["base"] == after["base"]
    assert told.startswith("sd ") and f"{before['sd']} (compiled on a CPU node) in round 1; {after['sd']} in" in told


def test_a_run_that_measures_nothing_more_names_the_artifacts_that_measured(world):
    before_serve(world)
    for step in ("Serve", "Smoke", "Benchmark", "StopArms"):
        world.finish(step)
    world.clean_up(CompileFailed("x"))
    world.run_through("run-9", request={"experiment": "rehearsal", "set": {"workload.rounds": 1}})
    world.plan("run-2", {"resume": "run-1"})
    assert as_told(world, "run-2") == as_told(world, "run-1")
    assert set(as_told(world, "run-2")[0].values()) == {(CompileOn.CPU, False)}


def test_a_refused_artifact_is_not_tried_again_by_the_next_run(world):
    refused(world)
    for step in ("StopArms", "Compile", "Serve", "StopArms"):
        world.finish(step)
    release.release(world.given("run-1"), world.rt)
    known = world.record().refused_artifacts[0]
    world.plan("run-2", request=REQUEST)
    stored = json.loads(world.s3.objects[s3_keys.run_key("run-2", "plan.json")])
    used = {arm["fingerprint"] for wave in stored["waves"] for arm in wave["arms"]}
    assert known not in used
