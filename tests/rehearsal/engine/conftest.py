"""The committed pair, engines in this process, and servers behind the name `vllm` as child processes."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rehearsal.engine.config import ServeSettings, Speculative
from rehearsal.engine.start_up import Engine, load_engine
from tests.patience import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[3]
TARGET = ROOT / "rehearsal" / "engine" / "weights" / "pair-target"
DRAFT = ROOT / "rehearsal" / "engine" / "weights" / "pair-draft"
VLLM = ROOT / "rehearsal" / "engine" / "vllm"

SETTINGS = ServeSettings(
    model=TARGET, served_model_name="pair", host="127.0.0.1", port=0, tensor_parallel_size=1, max_num_seqs=4,
    max_model_len=512, neuron_config={}, speculative=None, api_key=None, artifacts=None,
)  # fmt: skip


def speculating(k: int, *, draft: Path = DRAFT, **changes: Any) -> ServeSettings:
    return replace(SETTINGS, speculative=Speculative(model=draft, num_speculative_tokens=k), **changes)


def samples(page: str) -> dict[str, float]:
    """Samples of a metrics page by name. A label that only some have is part of the name: `name[value]`."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            own = [value for label, value in sample.labels.items() if label not in ("engine", "model_name")]
            assert "engine" in sample.labels or sample.name.startswith("process_")
            found[sample.name.removeprefix("vllm:") + "".join(f"[{value}]" for value in own)] = sample.value
    return found


@pytest.fixture(scope="session")
def base() -> Engine:
    return load_engine(SETTINGS)


@pytest.fixture(scope="session")
def random_draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft model that has learnt nothing, with the shape of the committed draft."""
    import numpy as np  # only after rehearsal.engine, which sets the number of its threads
    from safetensors.numpy import load_file, save_file

    folder = tmp_path_factory.mktemp("draft")
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes((DRAFT / name).read_bytes())
    random = np.random.default_rng(7)
    weights = load_file(DRAFT / "model.safetensors")
    drawn = {name: random.normal(0, 0.1, array.shape).astype(np.float32) for name, array in weights.items()}
    save_file(drawn, folder / "model.safetensors")
    return folder


@dataclass
class Served:
    process: subprocess.Popen[str]
    port: int

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and body (parsed if JSON)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        connection.request(method, path, data)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(text) if is_json else text

    def complete(self, prompt: str, **more: Any) -> dict[str, Any]:
        status, answer = self.request("POST", "/v1/completions", {"model": "pair", "prompt": prompt, **more})
        assert status == 200, answer
        return answer

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Events of a stream up to [DONE], which must come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("POST", path, json.dumps({"model": "pair", "stream": True, **body}))
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"] == "text/event-stream"
        done = False
        try:
            for line in response:
                if line == b"data: [DONE]\n":
                    done = True
                elif line.startswith(b"data: "):
                    yield json.loads(line[6:])
            assert done
        finally:
            connection.close()

    def counters(self) -> dict[str, float]:
        _, page = self.request("GET", "/metrics")
        return samples(page)

    def stop(self) -> int:
        """End it by SIGTERM. Returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)


@contextmanager
def serve(*flags: str, wait: bool = True, environment: dict[str, str] | None = None) -> Iterator[Served]:
    """`vllm serve` on the committed target, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(VLLM), "serve", str(TARGET), "--served-model-name", "pair", "--port", str(port)]
    inherited = {name: value for name, value in os.environ.items() if name != "NEURON_COMPILED_ARTIFACTS"}
    process = subprocess.Popen(
        [*command, *flags], env=inherited | (environment or {}), stderr=subprocess.PIPE, text=True, cwd="/"
    )
    served = Served(process, port)
    try:
        if wait:
            _wait_until_healthy(served)
        yield served
    finally:
        process.kill()
        process.communicate()


def _wait_until_healthy(served: Served) -> None:
    def healthy() -> bool:
        assert served.process.poll() is None, served.process.communicate()[1]
        try:
            return served.request("GET", "/health")[0] == 200
        except OSError:
            return False

    until(healthy)


@pytest.fixture(scope="session")
def base_server() -> Iterator[Served]:
    with serve("--max-num-seqs", "4", "--max-model-len", "512") as served:
        yield served


@pytest.fixture(scope="session")
def speculating_server() -> Iterator[Served]:
    config = json.dumps({"model": str(DRAFT), "num_speculative_tokens": 5, "method": "eagle"})
    told = ("--per-request-spec-decode-metrics", "summary")
    with serve("--max-num-seqs", "4", "--max-model-len", "512", "--speculative-config", config, *told) as served:
        yield served
