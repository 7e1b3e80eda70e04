"""User text in the commands of pods: it reaches the program as it was written, and nothing of it runs.

The scripts are taken from the manifests, expanded as a kubelet does, and run by a real shell.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from specdecode.experiment import load_preset
from specdecode.experiment.variants import Serving
from specdecode.manifests import compile_job, serving
from specdecode.manifests.pods import literal

from rehearsal.kubernetes.node.environment import expand
from tests.finished_folders import finish
from tests.plans import CTX, plan_for
from tests.pods import engine_of, make_node, on_node
from tests.untrusted.hostile import EVERYTHING, SHELL

TEXTS = [
    *SHELL,
    *("$(KEY)", "$$(KEY)", "$$$(KEY)", "$(POD_IP)", "a'$(KEY)'b", "$$", "$", "'", '"', "\\", "`id`", "!!", "*", "~"),
    *("--x", "", " ", "é\u202e", "@PWD@", "{max_num_seqs}", "${HOME}", "<(touch pwned)", "a\tb", "#", ";", "|"),
    "\u2028",
]
KEY = "'; touch pwned; echo '"
"""A variable whose value would end a quote, if Kubernetes put it there."""
SHOW_WORDS = """#!/usr/bin/env python3
import json, os, sys
print(json.dumps({"words": sys.argv[1:], "env": dict(os.environ)}))
"""


def run(container: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What `vllm` is called with when a kubelet starts the container in `folder`."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "vllm").write_text(SHOW_WORDS)
    (programs / "vllm").chmod(0o755)
    make_node(folder)
    variables = {"POD_IP": "127.0.0.9"}
    for item in container["env"]:
        if "value" in item:
            variables[item["name"]] = expand(item["value"], variables)
    command = [on_node(expand(word, variables), folder) for word in container["command"]]
    work = folder / "work"
    env = {**variables, "PATH": f"{programs}:{os.environ['PATH']}"}
    ended = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert [path.name for path in folder.rglob("pwned*")] == []
    return json.loads(ended.stdout)


def test_arguments_and_variables_arrive_as_they_were_written(tmp_path: Path) -> None:
    texts = tuple(text for text in TEXTS if text.isprintable() or text in ("a\tb", "\n touch pwned\n"))
    env = {"KEY": KEY, **{f"TEXT_{number}": text for number, text in enumerate(texts)}}
    experiment = load_preset("rehearsal")
    served = experiment.serving.model_copy(update={"extra_args": texts, "env": env})
    experiment = experiment.model_copy(update={"serving": served})
    plan = plan_for(experiment)
    arm = plan.waves[0].arms[0]
    models = [model.prefix.rstrip("/") for model in experiment.models_of(experiment.variants[0])]
    finish(tmp_path / "work", f"compiled/{arm.fingerprint}", *models)
    called = run(engine_of(serving(plan, arm, CTX)[0]), tmp_path)
    assert tuple(called["words"][-len(texts) :]) == texts
    assert {name: called["env"][name] for name in env} == env


def test_json_in_a_word_arrives_as_json(tmp_path: Path) -> None:
    plan = plan_for(load_preset("qwen3-32b"))
    config = {"a": [*SHELL, "$(KEY)", "'", '"', "\\"], "b": {"c": EVERYTHING}}
    experiment = plan.experiment.model_copy(
        update={"serving": plan.experiment.serving.model_copy(update={"neuron_config": config, "env": {"KEY": KEY}})}
    )
    plan = plan_for(experiment)
    arm = plan.waves[0].arms[0]
    script = engine_of(compile_job(plan, arm, CTX).job)
    line = script["command"][2].rpartition(" -- ")[2]
    (tmp_path / "work").mkdir()
    called = run({**script, "command": ["/bin/sh", "-c", line]}, tmp_path)
    word = called["words"][called["words"].index("--override-neuron-config") + 1]
    assert {key: json.loads(word)[key] for key in config} == config


@pytest.mark.parametrize("text", TEXTS)
def test_kubernetes_expands_nothing_of_it(text: str) -> None:
    assert expand(literal(text), {"KEY": KEY, "POD_IP": "1", "touch pwned": "x"}) == text


@pytest.mark.parametrize("text", ["a\x00b", "\x1b[2J", "x" * 20_000])
def test_what_no_process_takes_is_refused(text: str) -> None:
    given = {"tensor_parallel_size": 1, "devices": 0, "max_num_seqs": 1, "max_model_len": 1}
    for field in ({"extra_args": (text,)}, {"env": {"A": text}}):
        with pytest.raises(ValidationError):
            Serving.model_validate({**given, **field})
