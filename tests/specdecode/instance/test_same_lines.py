"""One machine runs what the cluster's pods run: image, script, variables, devices, for every preset."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from specdecode import finished, manifests
from specdecode.exit_codes import Exit
from specdecode.experiment import Capacity, load_preset, preset_names
from specdecode.experiment.model import CompileOn, ServedExperiment, Sweep
from specdecode.instance import engines
from specdecode.instance.containers import MARK, Containers, Environment
from specdecode.instance.engines import Folders, Program, render_context
from specdecode.instance.run import InstanceRun
from specdecode.instance.running import RunFailed
from specdecode.instance.script import SHELL, _start, script
from specdecode.pod import smoke

from tests.finished_folders import finish
from tests.plans import plan_for

AT = Folders(store=Path("/store"), results=Path("/results"))
CTX = render_context("r")
FITTING = [
    name
    for name in preset_names()
    if isinstance(given := load_preset(name), ServedExperiment) and given.compile.on is CompileOn.ACCELERATOR
]


def plan_of(name: str):
    experiment = load_preset(name).model_copy(update={"sweep": Sweep.GRID})
    return plan_for(experiment, capacity=Capacity(price_per_node_hour=1.0))


def engine_containers(plan, wave):
    """The engine's containers that the cluster's pods have, each beside ours."""
    for place, arm in enumerate(wave.arms):
        (pod,) = manifests.serving(plan, arm, CTX)[0]["spec"]["template"]["spec"]["containers"][:1]
        yield pod, engines.server(plan, arm, CTX, AT, place=place)
    for _, arm in engines.artifacts(plan):
        _, pod = manifests.compile_job(plan, arm, CTX).job["spec"]["template"]["spec"]["initContainers"]
        yield pod, engines.compiler(plan, arm, CTX, AT)


@pytest.mark.parametrize("name", FITTING)
def test_one_machine_and_the_cluster_run_the_same_lines(name: str) -> None:
    plan = plan_of(name)
    printed = script(plan, Containers(program="docker", mark="m"), CTX)
    seen: dict[str, list[int]] = {}
    for wave in plan.waves:
        for pod, ours in engine_containers(plan, wave):
            assert ours.image == pod["image"]
            assert ours.script == pod["command"][2].replace("$$", "$")
            given = {each["name"]: each["value"].replace("$$", "$") for each in pod["env"] if "value" in each}
            assert {key: value for key, value in ours.env.items() if key != "POD_IP"} == given
            assert [each.target for each in ours.mounts if "bundle" not in each.target] == [
                each["mountPath"] for each in pod["volumeMounts"] if each["name"] not in ("shm", "bundle")
            ]
            assert ours.script.splitlines()[-1] in printed.splitlines()
            claimed = plan.served.serving.devices if plan.engine.on_neuron else 0
            assert len(ours.devices) == claimed
            seen.setdefault(f"{wave.index} {ours.name}", []).extend(ours.devices)
        together = [number for arm in wave.arms for number in seen[f"{wave.index} serve-{arm.variant}"]]
        assert len(set(together)) == len(together) <= plan.experiment.shape.devices
    assert len(FITTING) > 10


def test_programs_have_the_words_of_the_pods() -> None:
    plan = plan_of("qwen3-32b-latency")
    first = engines.fetching(plan.models_to_stage[0], plan, CTX)
    job = manifests.staging_job(plan, plan.models_to_stage[0], CTX).job
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][2].endswith(f"exec python3 -m {first.words}")
    assert "--model Qwen/Qwen3-32B" in first.words


def test_an_environment_keeps_arms_apart_by_cores_and_holds_credentials_back(monkeypatch) -> None:
    plan = plan_of("qwen3-32b")
    (wave, *_) = plan.waves
    runs = [engines.server(plan, arm, CTX, AT, place=place) for place, arm in enumerate(wave.arms)]
    assert [run.cores for run in runs] == ["0-31", "32-63"]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")
    monkeypatch.setenv("HF_TOKEN", "mine")
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "mine")
    given = Environment(folder=Path("/venv"), mark="m").environment(runs[1])
    assert given["NEURON_RT_VISIBLE_CORES"] == "32-63"
    assert given["PATH"].startswith("/venv/bin:")
    assert "mine" not in given.values()


def test_the_printed_script_gives_an_engine_the_variables_that_the_command_does(tmp_path: Path, monkeypatch) -> None:
    plan, tool = plan_of("qwen3-32b"), Environment(folder=tmp_path / "venv", mark="m")
    run = replace(engines.server(plan, plan.waves[0].arms[1], CTX, SHELL, place=1), script="env -0 > seen")
    for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, "mine\nAWS_x KEPT=1\nKEPT=2")
    monkeypatch.setenv("KEPT", "AWS_x=1\nAWS_y=2")
    lines = ["set -eu", 'STORE="$PWD/store" RESULTS="$PWD/results"; mkdir -p results/logs', *_start(run, tool), "wait"]
    subprocess.run(["/bin/sh", "-c", "\n".join(lines)], cwd=tmp_path, env=dict(os.environ), check=True)
    at = Folders(store=tmp_path / "store", results=tmp_path / "results")
    command = tool.environment(engines.server(plan, plan.waves[0].arms[1], CTX, at, place=1))
    shown = (at.of(run.name) / "work" / "seen").read_text().rstrip("\0")
    seen = dict(each.split("=", 1) for each in shown.split("\0"))
    of_shells = {"PWD", "OLDPWD", "SHLVL", "_", "POD_IP", MARK}  # an address is told by the folder's path
    assert {**seen, **dict.fromkeys(of_shells)} == {**command, **dict.fromkeys(of_shells)}
    assert seen["KEPT"] and "mine" not in "".join(seen.values()) and seen["NEURON_RT_VISIBLE_CORES"] == "32-63"


@pytest.mark.parametrize(("code", "told"), [(Exit.DAMAGED_ARTIFACT, "is deleted"), (Exit.DAMAGED_MODEL, "set aside")])
def test_the_start_after_damage_is_no_dead_end(tmp_path, monkeypatch, code: Exit, told: str) -> None:
    plan, at = plan_of("rehearsal"), Folders(store=tmp_path / "store", results=tmp_path / "results")
    (arm, *_) = plan.waves[0].arms
    damaged = replace(engines.server(plan, arm, CTX, at, place=0), script=f"exit {code.value}")
    monkeypatch.setattr(engines, "server", lambda *_, **__: damaged)
    ((prefix, _), *_) = engines.artifacts(plan)
    (at.store / prefix).mkdir(parents=True)
    finish(at.store, model := plan.models[0].prefix.rstrip("/"))
    run = InstanceRun(plan=plan, tool=Environment(folder=tmp_path, mark="m"), at=at, ctx=CTX, say=print)
    with pytest.raises(RunFailed, match=told), run.serving([arm]):
        pass
    assert (at.store / prefix).exists() == (code is Exit.DAMAGED_MODEL)
    assert (at.store / model / "COMPLETE.json").exists() == (code is Exit.DAMAGED_ARTIFACT)


@pytest.mark.parametrize("words", ["no_such_module", "timeit -n 1 -r 1 'import time; time.sleep(300)'"])
def test_a_server_that_ends_under_load_ends_the_load_and_is_told(tmp_path, monkeypatch, words: str) -> None:
    plan, at = plan_of("rehearsal"), Folders(store=tmp_path / "store", results=tmp_path / "results")
    (arm, *_) = plan.waves[0].arms
    dies = replace(engines.server(plan, arm, CTX, at, place=0), script="echo out of memory; exit 3")
    monkeypatch.setattr(engines, "server", lambda *_, **__: dies)
    monkeypatch.setattr(smoke, "healthy", lambda _: True)
    run = InstanceRun(plan=plan, tool=Environment(folder=tmp_path, mark="m"), at=at, ctx=CTX, say=print)
    load = Program(title="benchmark", words=words, deadline="benchmark")
    with pytest.raises(RunFailed, match=f"{dies.name} ended with 3:\nout of memory"), run.alone(), run.serving([arm]):
        run._running[dies.name].wait()
        run.run(load, run.client_folder(), asks=[dies])


@pytest.mark.parametrize("deadline", ["staging", "compile", "benchmark"])
def test_what_does_not_end_in_time_is_ended(tmp_path, monkeypatch, deadline: str) -> None:
    plan, at = plan_of("rehearsal"), Folders(store=tmp_path / "store", results=tmp_path / "results")
    none = plan.experiment.deadlines.model_copy(update={deadline: 0})
    plan = plan.model_copy(update={"experiment": plan.experiment.model_copy(update={"deadlines": none})})
    run = InstanceRun(plan=plan, tool=Environment(folder=tmp_path, mark="m"), at=at, ctx=CTX, say=print)
    sleeps = "timeit -n 1 -r 1 'import time; time.sleep(300)'"
    with pytest.raises(RunFailed, match=rf"does not end in time \(deadlines\.{deadline} is 0 minutes\)"), run.alone():
        run.run(Program(title="a program", words=sleeps, deadline=deadline), tmp_path)


@pytest.mark.parametrize("refused", [False, True])
def test_of_two_models_the_damaged_one_is_set_aside_and_what_refuses_it_is_told_with_the_log(
    tmp_path, monkeypatch, refused: bool
) -> None:
    plan, at = plan_of("rehearsal"), Folders(store=tmp_path / "store", results=tmp_path / "results")
    arm = next(arm for arm in plan.waves[0].arms if arm.variant == "sd")
    whole, damaged = (model.prefix for model in plan.models)
    for prefix in (whole, damaged):
        finish(at.store, prefix.rstrip("/"))
    said = f"echo 'specdecode: error 79: {damaged} is damaged: a differs' >&2; exit {Exit.DAMAGED_MODEL.value}"
    earlier = at.results / "logs" / "serve-sd.log"  # of a run that is resumed
    earlier.parent.mkdir(parents=True)
    earlier.write_text(said.replace(damaged, whole))
    run_of = replace(engines.server(plan, arm, CTX, at, place=0), script=said)
    monkeypatch.setattr(engines, "server", lambda *_, **__: run_of)
    if refused:
        monkeypatch.setattr(finished, "set_aside", Mock(side_effect=PermissionError(13, "not yours", damaged)))
    run = InstanceRun(plan=plan, tool=Environment(folder=tmp_path, mark="m"), at=at, ctx=CTX, say=print)
    says = "delete it, or move it away, yourself" if refused else "set aside"
    with pytest.raises(RunFailed, match=says) as told, run.serving([arm]):
        pass
    assert "a differs" in str(told.value) and (not refused or "not yours" in str(told.value))
    assert (at.store / whole / "COMPLETE.json").exists()
    assert (at.store / damaged / "COMPLETE.json").exists() == refused
