"""Engines are data: what ships says all it must, and a new image with a new pair needs no code."""

import shutil

import pytest
import yaml
from specdecode import assets
from specdecode.experiment import Engine, ExperimentError, assets_dir, engine_names, files, load_engine, load_preset
from specdecode.experiment.capacity import RESERVED_CPU
from specdecode.experiment.engine import Dialect
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.shapes import CPU, LARGE
from specdecode.experiment.variants import Method
from specdecode.manifests import all_objects

from tests import kubernetes_schema
from tests.plans import CTX, plan_for
from tests.pods import containers


def test_the_generations_that_matter_are_there():
    natives = {"0.21.0-sdk2.31.1", "0.24.0-sdk2.32.0", "0.29.0-sdk2.33.0"}
    shipped = {name for name in engine_names() if not name.startswith("rehearsal-")}
    assert shipped == {"0.9.1-sdk2.26.1", "0.16.0-sdk2.31.1", "0.32.0-cpu", "0.32.0-cpu-large"} | natives
    for engine in map(load_engine, natives):
        assert engine.dialect is Dialect.NATIVE_PLUGIN and engine.metrics.trusted and engine.support is None


def test_an_engine_that_extends_another_has_all_that_it_does_not_change():
    newest, older = load_engine("0.29.0-sdk2.33.0"), load_engine("0.24.0-sdk2.32.0")
    assert newest.env.keys() - older.env.keys() == {"VLLM_NEURON_BACKEND"}, "null takes a key away"
    assert set(newest.methods) - set(older.methods) == {Method.DFLASH}
    assert (older.settable_env, older.probes) == (newest.settable_env, newest.probes)
    assert older.artifact and newest.artifact
    assert older.artifact.model_copy(update={"on_cpu": None}) == newest.artifact
    assert older.image != newest.image and older.runtime.version == "2.34.10"


@pytest.fixture
def root(tmp_path, monkeypatch):
    copied = tmp_path / "assets"
    shutil.copytree(assets_dir(), copied)
    for module in (assets, files):
        monkeypatch.setattr(module, "assets_dir", lambda: copied)
    return copied


def test_an_engine_that_extends_none_that_is_there_says_so(root):
    (root / "engines" / "mine.yaml").write_text("extends: yours\nname: mine\n")
    with pytest.raises(ExperimentError, match="no engine is called 'yours'"):
        load_engine("mine")


def test_each_mode_of_the_article_has_an_engine_or_a_clear_line():
    engines = [engine for engine in map(load_engine, engine_names()) if engine.on_neuron]
    served = {method: [e.name for e in engines if method in e.methods] for method in Method}
    assert served[Method.FUSED_DRAFT] == ["0.9.1-sdk2.26.1"]
    assert served[Method.EAGLE] and served[Method.EAGLE3]
    for method in (Method.VANILLA_DRAFT, Method.MEDUSA):
        assert not served[method]
        assert any("no image serves" in e.refused[method] for e in engines)


def test_nxd_inference_verifies_one_draft_less_and_nobody_else():
    """models/model_base.py of v0.6.10598: the fork of 0.9.1 and the plugin of 0.16 run it, the native plugin not."""
    kinds = {name: load_engine(name).most_tokens_per_step for name in engine_names()}
    neuron = {name: kind for name, kind in kinds.items() if load_engine(name).on_neuron}
    for name, kind in neuron.items():
        runs_nxd_inference = load_engine(name).dialect in (Dialect.OVERRIDE_NEURON_CONFIG, Dialect.NXDI_PLUGIN)
        assert (kind is MostTokens.K) == runs_nxd_inference, name
    assert set(neuron.values()) == set(MostTokens)


@pytest.mark.parametrize("name", engine_names())
def test_pod_requests_keep_within_what_the_node_can_give(name):
    engine = load_engine(name)
    resources = engine.resources
    assert engine.name == name and set(engine.methods) | set(engine.refused) == set(Method)
    on_cpus = {"0.32.0-cpu": (2, CPU), "rehearsal-forecast": (3, CPU), "0.32.0-cpu-large": (3, LARGE)}
    if name in on_cpus:
        arms, shape = on_cpus[name]
        assert arms * resources.serving.cpu + resources.benchmark.cpu + RESERVED_CPU <= shape.cpu
        return
    assert resources.serving.cpu == 80 and resources.serving.cpu_limit is None
    assert resources.benchmark.cpu == 8
    assert resources.compile is None or resources.compile.cpu <= 180


def test_the_bundle_runs_in_a_small_image_with_python_311():
    for engine in map(load_engine, engine_names()):
        image = engine.tools_image or engine.image
        assert image == "public.ecr.aws/lambda/python:3.11" or "/rehearsal/" in engine.image, engine.name


def test_what_contradicts_itself_in_an_engines_file_is_refused():
    document = load_engine("rehearsal-vllm").model_dump(mode="json")
    assert document["artifact"] is None and document["resources"]["compile"] is None
    for change in ({"artifact": {}}, {"resources": load_engine("rehearsal-cpu").resources.model_dump()}):
        with pytest.raises(ValueError, match="go together"):
            Engine.model_validate({**document, **change})
    document = load_engine("0.9.1-sdk2.26.1").model_dump(mode="json")
    document["metrics"] = load_engine("rehearsal-cpu").metrics.model_dump(mode="json")
    with pytest.raises(ValueError, match="no engine that verifies k - 1 drafts is known"):
        Engine.model_validate(document)
    engine = load_engine("rehearsal-cpu").model_dump()
    with pytest.raises(ValueError, match="tools_digest is of tools_image, which is not given"):
        type(load_engine("rehearsal-cpu")).model_validate({**engine, "tools_digest": DIGEST})


NEW_EXPERIMENT = """
name: acme
title: Our own model on an image of tomorrow
engine: 0.42.0-sdk2.40.0
target: {id: acme/Big-70B, revision: v3, family: acme-lm, import_prefix: imports/big/, size_gib: 140}
serving:
  {devices: 16, tensor_parallel_size: 64, max_num_seqs: 2, max_model_len: 4096, extra_args: [--no-async-scheduling]}
variants:
  - {name: base, label: Base}
  - name: medusa
    label: Medusa
    compare_to: base
    speculation:
      method: medusa
      draft: {id: acme/Heads, revision: v1, family: acme-lm, kind: medusa, import_prefix: imports/heads/, size_gib: 3}
      num_speculative_tokens: 4
workload: {cases: [letter-a], input_tokens: 64, output_tokens: 64, requests: 2, endpoint: completions}
"""


def test_new_engine_and_model_pair_by_data_alone(root):
    text = (root / "engines" / "0.29.0-sdk2.33.0.yaml").read_text()
    for old, new in (
        ("name: 0.29.0-sdk2.33.0", "name: 0.42.0-sdk2.40.0"),
        ("0.29.0.1.2.0-neuronx", "0.42.0-neuronx"),
        ("  medusa: the native plugin has no Medusa; no image serves it\n", ""),
        ("methods:\n", "methods:\n  medusa: {vllm_method: medusa}\n"),
        ("model_families: [llama3,", "model_families: [acme-lm, llama3,"),
    ):
        text = text.replace(old, new)
    (root / "engines" / "0.42.0-sdk2.40.0.yaml").write_text(text)
    (root / "experiments" / "acme.yaml").write_text(NEW_EXPERIMENT)

    experiment = load_preset("acme")
    plan = plan_for(experiment, engine=load_engine("0.42.0-sdk2.40.0"))
    objects = all_objects(plan, CTX)
    for obj in objects:
        kubernetes_schema.validate(obj)
    text = str(objects)
    assert "0.42.0-neuronx" in text and "models/acme--Heads@v1" in text and '"method": "medusa"' in text


def test_a_wrong_engine_file_says_what_is_wrong(root):
    text = (root / "engines" / "rehearsal-cpu.yaml").read_text()
    wrong = text.replace("  medusa:", "  meduza:").replace("greedy_only", "greedy")
    (root / "engines" / "broken.yaml").write_text(wrong)
    with pytest.raises(ExperimentError, match="did you mean 'greedy_only'"):
        load_engine("broken")


DIGEST = "sha256:" + "0123456789abcdef" * 4


def pinned(root, **fields):
    """The 0.16 engine, which has a tools_image, with fields of its file set."""
    document = yaml.safe_load((root / "engines" / "0.16.0-sdk2.31.1.yaml").read_text())
    name = f"pinned-{len(fields)}"
    (root / "engines" / f"{name}.yaml").write_text(yaml.safe_dump({**document, "name": name, **fields}))
    return load_engine(name)


def test_pods_name_images_by_digest_where_it_is_known(root):
    preset = load_preset("qwen3-32b", overrides={"serving.neuron_metrics": True, "accuracy": True})
    experiment = preset.model_copy(update={"variants": preset.variants[:1]})
    tag, tools = (getattr(load_engine("0.16.0-sdk2.31.1"), name) for name in ("image", "tools_image"))
    for fields, server, client in (
        ({}, tag, tools),
        ({"digest": DIGEST}, f"{tag}@{DIGEST}", tools),
        ({"digest": DIGEST, "tools_digest": DIGEST}, f"{tag}@{DIGEST}", f"{tools}@{DIGEST}"),
    ):
        engine = pinned(root, **fields)
        images = {}
        for obj in all_objects(plan_for(experiment, engine=engine), CTX):
            if "template" not in obj.get("spec", {}):
                continue
            component = obj["metadata"]["labels"]["app.kubernetes.io/component"]
            for name, container in containers(obj["spec"]["template"]).items():
                images.setdefault(container["image"], set()).add(f"{component}/{name}")
        of_server = "compile/compile serving/main serving/neuron-monitor start-check/main accuracy/main"
        of_client = "staging/main benchmark/main smoke/main start-check/tiny-model compile/fetch compile/store"
        assert images == {server: set(of_server.split()), client: set(of_client.split())}, (
            "neuron-monitor is in the engine's image; the accuracy test's wheels need its glibc"
        )


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("digest", DIGEST[:-1], "digest"),
        ("digest", "0123", "digest"),
        ("tools_digest", f"md5:{'0' * 32}", "tools_digest"),
        ("image", f"example.com/a/b:1@{DIGEST}", "into the field of its own beside it"),
    ],
)
def test_a_digest_that_is_none_is_refused(root, field, value, says):
    with pytest.raises(ExperimentError, match=says):
        pinned(root, **{field: value})


def test_a_digest_stays_with_its_image_where_an_engine_extends_another(root):
    """Else a pod would pull the other engine's bytes under this one's tag."""
    newest = root / "engines" / "0.29.0-sdk2.33.0.yaml"
    newest.write_text(newest.read_text() + f"digest: {DIGEST}\ntools_digest: {DIGEST}\n")
    (root / "engines" / "ours.yaml").write_text("extends: 0.24.0-sdk2.32.0\nname: ours\n")
    assert load_engine("0.29.0-sdk2.33.0").reference.endswith(f"@{DIGEST}")
    for name in ("0.24.0-sdk2.32.0", "0.21.0-sdk2.31.1", "ours"):
        engine = load_engine(name)
        assert engine.reference == engine.image, name
        assert engine.tools_reference.endswith(f"@{DIGEST}"), "they share this image"


def test_the_engine_of_draft_models_is_the_published_image_with_patience_and_room():
    engine = load_engine("0.9.1-sdk2.26.1")
    registry = "public.ecr.aws/neuron/pytorch-inference-vllm-neuronx"
    assert engine.image == f"{registry}:0.9.1-neuronx-py311-sdk2.26.1-ubuntu22.04"
    assert engine.metrics.trusted is False, "it never fills its counters of speculation"
    compiling = engine.resources.compile
    assert compiling.memory_gib >= 400 and compiling.ephemeral_gib >= 500
    weights = 756  # GiB, of Llama-3.1-405B in bf16: on disk as downloaded and as shards, in memory as both
    assert compiling.ephemeral_request_gib(weights) >= 2 * weights + 400
    assert compiling.memory_request_gib(weights) >= 2 * weights
    for probe in (engine.probes.startup, engine.probes.liveness):
        assert probe.timeout_s >= 30, "a server that compiles or prefills answers late"
    assert engine.probes.liveness.period_s * engine.probes.liveness.failures >= 180
