"""Do real vLLM and the embedded engine say the same? `.rehearsal/vllm/bin/python benchmarks/vllm_equality.py`

Needs `make install-vllm`. Starts vLLM with the pair as Llama models, without and with the draft, as the preset
rehearsal-vllm does, asks both for a greedy answer to every prompt of benchmarks/engine.py and to four short ones, and
compares text, number of prompt tokens and the logarithm of each token's probability with the embedded engine's.
Status 1 if a text differs.
Raw result: benchmarks/results/vllm_equality.json.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "lambda")]

from engine import OPEN_ENDED, STRUCTURED  # noqa: E402
from specdecode.experiment import load_engine, load_preset  # noqa: E402

from rehearsal.engine.artifact import CompiledArrays  # noqa: E402
from rehearsal.engine.config import read_model_folder  # noqa: E402
from rehearsal.engine.forward import Cache, NeuralNetwork, Segment  # noqa: E402
from rehearsal.engine.packing import pack_weights, plan_tables  # noqa: E402
from rehearsal.engine.tokenizer import Tokenizer  # noqa: E402
from rehearsal.tools import LLAMA, VLLM  # noqa: E402

TOKENS, WINDOW, START_S = 64, 1024, 1800
PORTS = {"base": 8711, "sd": 8712}
MORE = {"one letter": "T", "a line break": "\n", "two lines": "alpha\nbeta\n", "digits": "1 2 3 4 5 6 7 8 9 10 11"}


def serve(variant, folder):
    """Start the arm's server."""
    preset, engine = load_preset("rehearsal-vllm"), load_engine("rehearsal-vllm")
    speculation = preset.variant(variant).speculation
    command = [VLLM / "bin" / "vllm", "serve", LLAMA / "pair-target-llama", "--served-model-name", "pair"]
    command += ["--host", "127.0.0.1", "--port", PORTS[variant], "--max-model-len", WINDOW, "--max-num-seqs", 4]
    command += engine.serve_args
    if speculation:
        config = {"method": "draft_model", "model": str(LLAMA / "pair-draft-llama"), "max_model_len": WINDOW}
        config["num_speculative_tokens"] = speculation.num_speculative_tokens
        command += ["--speculative-config", json.dumps(config)]
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return subprocess.Popen(
        [str(part) for part in command], cwd=folder, env={**os.environ, **offline, **engine.env, "HOME": str(folder)},
        stdout=(folder / f"{variant}.log").open("w"), stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def ready(server, variant, folder):
    """Wait until it answers; returns the seconds."""
    began = time.monotonic()
    while time.monotonic() - began < START_S:
        if server.poll() is not None:
            sys.exit(f"vLLM ended:\n{(folder / f'{variant}.log').read_text()[-3000:]}")
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{PORTS[variant]}/health", timeout=5)
            return time.monotonic() - began
        time.sleep(1)
    sys.exit(f"vLLM was not ready after {START_S} s")


def ask(variant, prompt):
    body = {
        "model": "pair",
        "prompt": prompt,
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "logprobs": 1,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORTS[variant]}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    return json.load(urllib.request.urlopen(request, timeout=600))


def embedded(network, tokens):
    """Greedy tokens after `tokens`, and the logarithms of their probabilities."""
    cache, start, known, logs = Cache(network.config, positions=WINDOW), 0, list(tokens), []
    while len(known) < len(tokens) + TOKENS:
        logits = network.forward([Segment(cache=cache, tokens=known, start=start, wanted=1)])[0][0].astype(float)
        start = len(known)
        known.append(int(logits.argmax()))
        logs.append(-float(np.log(np.exp(logits - logits.max()).sum())))
    return known[len(tokens) :], logs


def main() -> int:
    source = read_model_folder(ROOT / "rehearsal" / "engine" / "weights" / "pair-target")
    tables = plan_tables(source.config, positions=WINDOW)
    network, tokenizer = (
        NeuralNetwork(source.config, CompiledArrays(weights=pack_weights(source), tables=tables)),
        Tokenizer(source.tokenizer),
    )
    rows, servers = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            servers = {variant: serve(variant, folder) for variant in PORTS}
            print(
                {variant: f"ready after {ready(servers[variant], variant, folder):.0f} s" for variant in PORTS},
                flush=True,
            )
            for case, text in (STRUCTURED | OPEN_ENDED | MORE).items():
                prompt = text.rstrip(" ")
                tokens = [source.config.bos_token_id, *tokenizer.encode(prompt)]
                chosen, logs = embedded(network, tokens)
                expected = b"".join(map(tokenizer.bytes_of, chosen)).decode(errors="replace")
                for variant in PORTS:
                    answer = ask(variant, prompt)
                    (choice,) = answer["choices"]
                    apart = max(abs(a - b) for a, b in zip(logs, choice["logprobs"]["token_logprobs"], strict=True))
                    row = {
                        "case": case,
                        "variant": variant,
                        "same_text": choice["text"] == expected,
                        "same_prompt_tokens": answer["usage"]["prompt_tokens"] == len(tokens),
                        "largest_difference": apart,
                    }
                    rows.append(row)
                    print(
                        f"{variant:5}{case:15} same text: {row['same_text']}, logarithms within {apart:.1e}", flush=True
                    )
        finally:
            for server in servers.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGTERM)
                server.wait(60)
    (ROOT / "benchmarks" / "results" / "vllm_equality.json").write_text(json.dumps(rows, indent=1) + "\n")
    same = sum(row["same_text"] and row["same_prompt_tokens"] for row in rows)
    print(f"{same} of {len(rows)} answers of {TOKENS} tokens are equal")
    return int(same < len(rows))


if __name__ == "__main__":
    sys.exit(main())
