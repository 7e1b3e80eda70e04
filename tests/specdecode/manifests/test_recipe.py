"""What a report gives to paste: the pod's own command, after its artifact and its weights."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from specdecode.experiment import load
from specdecode.experiment.files import load_engine
from specdecode.manifests.serve_command import recipe, serve_words


@pytest.mark.parametrize("preset", ["qwen3-32b", "llama-3.1-405b", "rehearsal", "rehearsal-vllm"])
def test_the_recipe_runs_the_pods_command_in_a_shell(preset: str, tmp_path: Path) -> None:
    """Run with `aws` and `vllm` that say what they were told: the same words as the pod's, but for its address."""
    experiment = load(preset)
    engine = load_engine(experiment.engine)
    for name in ("aws", "vllm"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@" "$NEURON_COMPILED_ARTIFACTS" END\n')
        (tmp_path / name).chmod(0o755)
    for variant in experiment.variants:
        key = "compiled/made/" if engine.artifact else None
        text = recipe(experiment, variant, engine, bucket="s3://bucket/", artifact=key)
        shell = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        ran = subprocess.run(
            ["bash", "-euc", text], cwd=tmp_path, env=shell, capture_output=True, text=True, check=True
        )
        calls = [[line for line in call.split("\n") if line] for call in ran.stdout.split("END\n")[:-1]]
        source = " ".join(serve_words(experiment, variant, engine, compiled=True))
        told = subprocess.run(
            ["bash", "-euc", f"printf '%s\\n' {source}"],
            cwd=tmp_path,
            env={**shell, "POD_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        assert calls[-1][: len(told)] == [f"{tmp_path}/vllm", *told[1:]]
        fetched = [call[3] for call in calls[:-1]]
        wanted = [f"s3://bucket/{model.prefix}" for model in experiment.models_of(variant)]
        assert fetched == ([f"s3://bucket/{key}"] if key else []) + wanted
        assert calls[-1][-1] == (f"{tmp_path}/{key.rstrip('/')}" if key else told[-1])
        assert ("Neuron device" in text.splitlines()[0]) == (not preset.startswith("rehearsal"))
        assert shlex.split(text.splitlines()[1])[:3] == ["aws", "s3", "sync"]
