"""The containers' scripts, run by a real shell with stand-ins for boto3, the bundle's programs and vllm."""

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from specdecode.experiment import load_engine, load_preset
from specdecode.manifests import compile_job, serving, smoke, staging_job

from tests.finished_folders import finish
from tests.plans import plan_for
from tests.pods import containers, engine_of, make_node, on_node

ECHO = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@" >> "$LOG"\nenv > "$LOG.env"\n'
PYTHON = f"""#!/bin/sh
for word; do
  if [ "$word" = -c ]; then exec env PYTHONPATH="$STAND_IN" {sys.executable} "$@"; fi
done
exec "$(dirname "$0")/program" "$@"
"""
"""Python itself for what a script says with -c, with a boto3 that stands in; else a program of the bundle."""
BOTO3 = """
import os, pathlib, types
def download_file(bucket, key, path):
    assert os.environ["AWS_DEFAULT_REGION"], "boto3 reads no other"
    if os.environ.get("DENIED"):
        raise OSError("An error occurred (403) when calling the HeadObject operation: Forbidden")
    pathlib.Path(path).write_bytes(pathlib.Path(os.environ["STAND_IN"], bucket, key).read_bytes())
client = lambda service: types.SimpleNamespace(download_file=download_file)
"""


def _bundle():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("specdecode/__init__.py", "")
    return data.getvalue()


BUNDLE = _bundle()


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Run a container's script in an empty folder; returns (exit code, what the program was called with, stderr)."""
    (tmp_path / "bin").mkdir()
    work = tmp_path / "work dir"  # a space: scripts quote what they must
    work.mkdir()
    stand_in = tmp_path / "stand-in"
    (stand_in / "assets").mkdir(parents=True)
    (stand_in / "boto3.py").write_text(BOTO3)
    (stand_in / "assets" / "bundle.zip").write_bytes(BUNDLE)
    for name, text in (("vllm", ECHO), ("python3", PYTHON), ("program", ECHO.replace('$(basename "$0")', "python3"))):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)

    make_node(tmp_path)

    def run(container, **env):
        script = on_node(container["command"][2].replace("$$(", "$("), tmp_path)  # as the kubelet does
        literal = {e["name"]: e["value"] for e in container["env"] if "value" in e}
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        ended = subprocess.run(
            ["/bin/sh", "-c", script],
            cwd=work,
            env={
                **{"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "LOG": str(log), "POD_IP": "127.0.0.9"},
                **{"STAND_IN": str(stand_in), **literal, **env},
            },
            capture_output=True,
            text=True,
        )
        called = log.read_text().splitlines() if log.exists() else []
        return ended.returncode, called, ended.stderr

    run.work, run.env_of = (
        work,
        lambda: dict(line.split("=", 1) for line in (tmp_path / "log.env").read_text().splitlines() if "=" in line),
    )
    return run


@pytest.fixture(scope="module")
def plan():
    return plan_for(load_preset("qwen3-32b"))


def test_serving_becomes_vllm_with_paths_below_its_working_directory(shell, plan, ctx):
    arm = plan.waves[0].arms[1]
    deployment, _ = serving(plan, arm, ctx)
    container = engine_of(deployment)
    target, draft = (model.prefix.rstrip("/") for model in plan.experiment.models_of(plan.experiment.variant("sd")))
    finish(shell.work, f"compiled/{arm.fingerprint}", target, draft)
    code, called, _ = shell(container)
    assert code == 0
    assert called[:3] == ["vllm", "serve", f"{shell.work}/{target}"]
    flags = dict(zip(called[3::2], called[4::2], strict=True))
    assert flags["--host"] == "127.0.0.9" and flags["--served-model-name"] == "Qwen/Qwen3-32B"
    assert json.loads(flags["--speculative-config"])["model"] == f"{shell.work}/{draft}"
    assert json.loads(flags["--override-neuron-config"])["enable_fused_speculation"] is True
    env = shell.env_of()
    assert env["NEURON_COMPILED_ARTIFACTS"] == f"{shell.work}/local/compiled/{arm.fingerprint}"
    assert env["HF_HUB_OFFLINE"] == "1" and env["HOME"] == str(shell.work)


def test_an_engine_that_compiles_nothing_serves_from_the_weights_alone(shell, ctx):
    plan = plan_for(load_preset("rehearsal-vllm"))
    deployment, _ = serving(plan, plan.waves[0].arms[1], ctx)
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {v["name"] for v in pod["volumes"]} & {"models", "compiled"} == {"models"}
    assert {m["name"] for m in container["volumeMounts"]} & {"models", "compiled"} == {"models"}
    target, draft = (model.prefix.rstrip("/") for model in plan.experiment.models_of(plan.experiment.variant("sd")))
    finish(shell.work, target)
    assert shell(container)[0] == 79, "the draft is missing"
    finish(shell.work, draft)
    code, called, _ = shell(container)
    assert code == 0
    speculative = json.loads(called[called.index("--speculative-config") + 1])
    assert (speculative["method"], speculative["model"]) == ("draft_model", f"{shell.work}/local/{draft}")
    assert {"--enforce-eager", "--dtype=float32", "--no-enable-prefix-caching"} <= set(called)
    assert not {"--override-neuron-config", "--additional-config"} & set(called)
    env = shell.env_of()
    assert "NEURON_COMPILED_ARTIFACTS" not in env
    assert (env["DO_NOT_TRACK"], env["VLLM_NO_USAGE_STATS"], env["HF_HUB_OFFLINE"]) == ("1", "1", "1")


def test_serving_refuses_what_was_never_finished_and_names_it(shell, plan, ctx):
    arm = plan.waves[0].arms[0]
    deployment, _ = serving(plan, arm, ctx)
    container = engine_of(deployment)
    code, called, stderr = shell(container)
    assert (code, called) == (76, [])
    assert f"error 76: compiled/{arm.fingerprint}/ is damaged: it has no COMPLETE.json" in stderr
    finish(shell.work, f"compiled/{arm.fingerprint}")
    code, _, stderr = shell(container)
    assert code == 79 and "models/Qwen--Qwen3-32B@" in stderr


def is_writable(folder: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IWUSR for path in (folder, *folder.rglob("*")))


def test_what_one_process_reads_file_after_file_is_copied_first_many_at_once(shell, plan, ctx):
    arm = plan.waves[0].arms[1]
    container = serving(plan, arm, ctx)[0]["spec"]["template"]["spec"]["containers"][0]
    compiled = f"compiled/{arm.fingerprint}"
    models = plan.experiment.models_of(plan.experiment.variant("sd"))
    for rank in range(40):
        path = shell.work / compiled / "weights" / "a folder" / f"tp{rank}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([rank]) * 1000)
    paths = [path for path in (shell.work / compiled).rglob("*") if path.is_file()]
    finish(shell.work, compiled, *(model.prefix.rstrip("/") for model in models))
    assert shell(container)[0] == 0
    local = shell.work / "local" / compiled
    for path in paths:
        assert (local / path.relative_to(shell.work / compiled)).read_bytes() == path.read_bytes()
    assert not any(path.stat().st_mode & 0o222 for path in (local, *local.rglob("*"))), "as read-only as the mount"
    assert not (shell.work / "local" / "models").exists(), "the artifact has the weights"
    shutil.rmtree(shell.work / compiled / "weights")
    assert shell(container)[0] == 0, "started again it finds its copy, whatever has become of that folder"
    (config,) = (shell.work / models[0].prefix).glob("part-0.bin")
    config.write_bytes(b"past")
    assert shell(container)[0] == 79, "it still reads the models through the mount"
    config.write_bytes(b"part")
    (local.parents[1]).chmod(0o755)
    (local.parents[1] / "verified").unlink()
    assert shell(container)[0] == 76, "what was broken off is done again"
    finish(shell.work, compiled)
    assert shell(container)[0] == 0 and not (local / "weights").exists()


def test_where_the_disks_are_slow_the_mount_is_read(shell, plan, ctx):
    arm = plan.waves[0].arms[0]
    slow = ctx.model_copy(update={"node_storage": "ebs"})
    container = serving(plan, arm, slow)[0]["spec"]["template"]["spec"]["containers"][0]
    finish(shell.work, f"compiled/{arm.fingerprint}", plan.experiment.target.prefix.rstrip("/"))
    assert shell(container)[0] == 0
    assert shell.env_of()["NEURON_COMPILED_ARTIFACTS"] == f"{shell.work}/compiled/{arm.fingerprint}"
    assert [path.name for path in (shell.work / "local").iterdir()] == ["verified"]
    (shell.work / f"compiled/{arm.fingerprint}" / "part-0.bin").write_bytes(b"past")
    assert shell(container)[0] == 76, "a container that starts again reads it again, and so it is compared again"
    asked, with_copy = (
        int(c["resources"]["requests"]["ephemeral-storage"].removesuffix("Gi"))
        for c in (container, serving(plan, arm, ctx)[0]["spec"]["template"]["spec"]["containers"][0])
    )
    assert with_copy >= asked + 61, "room for the copy is asked for where one is made, and only there"


def test_a_disk_without_room_for_the_copy_is_said_before_a_byte_and_a_copy_that_is_there_asks_for_none(
    shell, plan, ctx
):
    arm = plan.waves[0].arms[0]
    container = engine_of(serving(plan, arm, ctx)[0])
    finish(shell.work, f"compiled/{arm.fingerprint}", plan.experiment.target.prefix.rstrip("/"))
    code, called, said = shell(container, FREE_KIB=str(60 * 2**20))
    assert (code, called) == (73, []), said
    assert "error 73: 60 GiB of the node's disk are free, and 68 GiB are needed" in said
    assert not list((shell.work / "local").iterdir())
    assert shell(container)[0] == 0
    assert shell(container, FREE_KIB="0")[0] == 0, "started again it finds its copy"


def test_an_artifact_that_must_be_writable_is_copied(shell, plan, ctx):
    engine = load_engine("0.29.0-sdk2.33.0")
    base = plan.experiment.variants[0]
    only = plan.experiment.model_copy(update={"variants": (base,)})
    native = plan_for(only, engine=engine)
    arm = native.waves[0].arms[0]
    container = engine_of(serving(native, arm, ctx)[0])
    (shell.work / "compiled" / arm.fingerprint).mkdir(parents=True)
    (shell.work / "compiled" / arm.fingerprint / "graph.neff").write_bytes(b"x")
    finish(shell.work, f"compiled/{arm.fingerprint}", plan.experiment.target.prefix.rstrip("/"))
    code, _, _ = shell(container)
    assert code == 0
    local = shell.work / "local" / "compiled" / arm.fingerprint
    assert shell.env_of()["VLLM_CACHE_ROOT"] == str(local)
    assert is_writable(local), "it takes locks there"
    (local / "graph.neff").write_bytes(b"half")
    (local / "left.neff").write_bytes(b"by an engine that was killed")
    assert shell(container)[0] == 0
    assert {path.name: path.read_bytes() for path in local.iterdir()} == {"graph.neff": b"x"}, "copied anew"
    assert not (shell.work / "local" / "models").exists(), "ranks read the weights at once: the mount is as fast"
    assert shell.env_of()["VLLM_NEURON_DISABLE_WARMUP_COMPILE"] == "1"
    compiling = engine_of(compile_job(native, arm, ctx).job)
    assert "VLLM_NEURON_DISABLE_WARMUP_COMPILE" not in json.dumps(compiling), "there it must compile"


def test_a_bundle_that_is_not_the_one_planned_is_not_run(shell, plan, ctx):
    container = engine_of(staging_job(plan, plan.models[0].model, ctx).job)
    code, called, stderr = shell(container)
    assert (code, called) == (65, [])
    assert stderr.startswith("specdecode: error 65: s3://assets/bundle.zip is not the bundle of this run")
    assert not (shell.work / "bundle").exists()


def test_a_bundle_that_cannot_be_had_is_one_line(shell, plan, ctx):
    container = engine_of(staging_job(plan, plan.models[0].model, ctx).job)
    code, called, stderr = shell(container, DENIED="1", BUNDLE_SHA256=digest())
    assert (code, called) == (69, [])
    assert stderr.splitlines() == [
        "specdecode: error 69: cannot fetch the bundle s3://assets/bundle.zip: "
        "An error occurred (403) when calling the HeadObject operation: Forbidden"
    ]


def test_boto3_beside_the_runtime_of_an_image_of_lambda_is_found(shell, plan, ctx):
    container = engine_of(staging_job(plan, plan.models[0].model, ctx).job)
    assert shell(container, BUNDLE_SHA256=digest(), LAMBDA_RUNTIME_DIR="/var/runtime")[0] == 0
    assert shell.env_of()["PYTHONPATH"] == f"{shell.work}/bundle:/var/runtime"


def digest():
    return hashlib.sha256(BUNDLE).hexdigest()


def test_programs_run_from_the_verified_bundle(shell, plan, ctx):
    arm = plan.waves[0].arms[1]
    pod = containers(compile_job(plan, arm, ctx).job["spec"]["template"])
    code, called, stderr = shell(pod["fetch"], BUNDLE_SHA256=digest())
    assert code == 0, stderr
    assert (shell.work / "bundle" / "specdecode" / "__init__.py").exists()
    assert called[:5] == ["python3", "-m", "specdecode.pod.fetch", "--bucket", "artifacts"]
    assert shell.env_of()["PYTHONPATH"] == f"{shell.work}/bundle"
    code, program, _ = shell(pod["compile"])
    assert code == 0 and program[:3] == ["python3", "-m", "specdecode.pod.compile"]
    served = program[program.index("--") + 1 :]
    assert served[:2] == ["vllm", "serve"] and f"{shell.work}/models/Qwen--Qwen3-32B@" in served[2]
    assert program[program.index("--health") + 1] == "http://127.0.0.9:8000/health"
    assert shell.env_of()["PYTHONPATH"] == f"{shell.work}/bundle"
    code, program, _ = shell(pod["store"])
    assert code == 0 and program[:5] == ["python3", "-m", "specdecode.pod.upload", "--bucket", "artifacts"]
    assert program[program.index("--") + 1 :] == served


def test_clients_find_the_arms_by_their_services(shell, plan, ctx):
    wave = plan.waves[0]
    container = engine_of(smoke(plan, wave, ctx).job)
    hosts = {
        obj["metadata"]["name"].upper().replace("-", "_") + "_SERVICE_HOST": f"10.0.0.{n}"
        for n, arm in enumerate(wave.arms)
        for obj in serving(plan, arm, ctx)
        if obj["kind"] == "Service"
    }
    code, called, _ = shell(container, BUNDLE_SHA256=digest(), **hosts)
    assert code == 0
    assert [called[i + 1] for i, word in enumerate(called) if word == "--arm"] == [
        "base=http://10.0.0.0:8000",
        "sd=http://10.0.0.1:8000",
    ]
    code, _, _ = shell(container, BUNDLE_SHA256=digest())
    assert code != 0, "without the Service there is no address, and no request is sent nowhere"


def test_the_compile_command_is_the_serving_command(plan, ctx):
    for arm in plan.waves[0].arms:
        compiled = engine_of(compile_job(plan, arm, ctx).job)["command"][2]
        served = engine_of(serving(plan, arm, ctx)[0])["command"][2]
        mapping = '"on_device_sampling_config": {"top_k": 1, "do_sample": false}, '  # the artifact has it
        assert mapping in compiled
        assert compiled.rsplit(" -- ", 1)[1].replace(mapping, "") == served.rsplit("exec ", 1)[1]


@pytest.mark.parametrize("compiling", [True, False])
def test_what_libraries_write_lies_on_a_volume(shell, plan, ctx, compiling):
    """As user 1000 of an image made for root: a cache at its default place fails or fills the image's layer."""
    arm = plan.waves[0].arms[0]
    finish(shell.work, f"compiled/{arm.fingerprint}", plan.experiment.target.prefix.rstrip("/"))
    made = compile_job(plan, arm, ctx).job if compiling else serving(plan, arm, ctx)[0]
    template = made["spec"]["template"]["spec"]
    container = engine_of(made)
    assert shell(container, BUNDLE_SHA256=digest())[0] == 0
    env = shell.env_of()
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "NEURON_COMPILE_CACHE_URL"):
        assert env[name].startswith(str(shell.work)), name
    assert not {"TMPDIR", "BASE_COMPILE_WORK_DIR"} & env.keys(), "scratch goes to /tmp"
    volumes = {volume["name"]: volume for volume in template["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert mounts["/specdecode"] == {"name": "work", "emptyDir": {}} and container["workingDir"] == "/specdecode"
    assert mounts["/tmp"] == {"name": "tmp", "emptyDir": {}}


def test_environment_of_compiling_and_serving_is_equal(plan, ctx):
    def env(obj):
        return {e["name"]: e.get("value") for e in engine_of(obj)["env"]}

    for arm in plan.waves[0].arms:
        compiled, served = env(compile_job(plan, arm, ctx).job), env(serving(plan, arm, ctx)[0])
        assert compiled | {"VLLM_API_KEY": None} == served
    assert os.environ.get("HF_TOKEN") is None or "HF_TOKEN" not in compiled
