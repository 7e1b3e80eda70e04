import http.client
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

from .conftest import Served, serve

pytestmark = pytest.mark.slow  # each starts the engine as a process
LONG = {"prompt": "Count from 1 to 200:\n1\n2\n", "max_tokens": 900, "ignore_eos": True}


def test_sigterm_ends_it_in_the_middle_of_a_stream() -> None:
    with serve() as served:
        events = served.stream("/v1/completions", LONG)
        next(events)
        assert served.stop() == 0
        with pytest.raises((AssertionError, http.client.HTTPException, ConnectionError)):
            list(events)


def test_a_port_that_is_taken_is_named(base_server: Served) -> None:
    with serve("--port", str(base_server.port), wait=False) as served:
        assert served.process.wait(timeout=PATIENCE_S) == 1
        log = _log(served)
    assert f"cannot listen on 127.0.0.1:{base_server.port}" in log
    assert "Traceback" not in log


def test_for_a_platform_that_is_not_here_it_compiles_everything_and_ends_where_it_would_load(tmp_path: Path) -> None:
    flags = ("--override-neuron-config", '{"save_sharded_checkpoint": true}', "--tensor-parallel-size", "2")
    environment = {"NEURON_COMPILED_ARTIFACTS": str(tmp_path / "compiled"), "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2"}
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
