from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

from .conftest import DRAFT, Served, serve

pytestmark = pytest.mark.slow  # each starts the engine as a process
LONG = {"prompt": "Count from 1 to 200:\n1\n2\n", "max_tokens": 900, "ignore_eos": True}


def test_sigterm_ends_it_in_the_middle_of_a_stream() -> None:
    with serve() as served:
        events = served.stream("/v1/completions", LONG)
        next(events)
        assert served.stop() == 0
        with pytest.raises((AssertionError, http.client.HTTPException, ConnectionError)):
            list(events)


def test_a_killed_server_cuts_its_streams() -> None:
    with serve() as served:
        events = served.stream("/v1/completions", LONG)
        next(events)
        served.process.kill()
        with pytest.raises((AssertionError, http.client.HTTPException, ConnectionError)):
            list(events)


def test_compiles_once_and_serves_from_the_folder_afterwards(tmp_path: Path) -> None:
    config = json.dumps({"model": str(DRAFT), "num_speculative_tokens": 3})
    flags = ("--speculative-config", config, "--override-neuron-config", '{"save_sharded_checkpoint": true}')
    environment = {"NEURON_COMPILED_ARTIFACTS": str(tmp_path / "compiled")}
    texts = []
    for expected in ("compiled into", "loaded compiled artifacts from"):
        with serve(*flags, environment=environment) as served:
            texts.append(served.complete(LONG["prompt"], max_tokens=50)["choices"][0]["text"])
            assert served.stop() == 0
            assert expected in _log(served)
    assert texts[0] == texts[1]
    with serve("--max-num-seqs", "2", environment=environment, wait=False) as served:
        assert served.process.wait(timeout=PATIENCE_S) == 1
        assert "was compiled for other settings" in _log(served)


def test_a_port_that_is_taken_is_named(base_server: Served) -> None:
    with serve("--port", str(base_server.port), wait=False) as served:
        assert served.process.wait(timeout=PATIENCE_S) == 1
        log = _log(served)
    assert f"cannot listen on 127.0.0.1:{base_server.port}" in log
    assert "Traceback" not in log


def test_an_unknown_flag_is_refused_by_the_command_itself() -> None:
    with serve("--enable-prefix-caching", wait=False) as served:
        assert served.process.wait(timeout=PATIENCE_S) == 2
        assert _log(served) == "vllm: error: unrecognized arguments: --enable-prefix-caching\n"


def test_for_a_platform_that_is_not_here_it_compiles_everything_and_ends_where_it_would_load(tmp_path: Path) -> None:
    flags = ("--override-neuron-config", '{"save_sharded_checkpoint": true}', "--tensor-parallel-size", "2")
    environment = {
        "NEURON_COMPILED_ARTIFACTS": str(tmp_path / "compiled"),
        "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2",
    }
    with serve(*flags, wait=False, environment=environment) as served:
        assert served.process.wait(timeout=PATIENCE_S) == 1
        assert "for trn2; there is no Neuron device to load it on" in _log(served)
    for name in ("neuron_config.json", "model.pt", "weights/tp1_sharded_checkpoint.safetensors"):
        assert (tmp_path / "compiled" / name).stat().st_size
    del environment["NEURON_PLATFORM_TARGET_OVERRIDE"]
    with serve(*flags, environment=environment) as served:
        assert served.complete("Count", max_tokens=2)


def _log(served: Served) -> str:
    assert served.process.stderr is not None
    return served.process.stderr.read()
