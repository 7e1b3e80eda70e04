"""The command `vllm serve` with the options of the 0.9.1 Neuron fork. Options that it does not know are refused."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from rehearsal.engine.config import ServeSettings, Speculative
from rehearsal.engine.errors import EngineSettingsError
from rehearsal.engine.process import serve

FRAMEWORK = "neuronx-distributed-inference"
METHODS = ("draft_model", "eagle")
"""Both mean a draft model here. 0.9.1's Neuron loader ignores `eagle` and builds draft-model speculation."""
NEURON_KEYS = ("save_sharded_checkpoint", "enable_fused_speculation")
SPECULATIVE_KEYS = ("model", "num_speculative_tokens", "max_model_len", "method")
MAX_SPECULATIVE_TOKENS = 32
IMAGE = "REHEARSAL_IMAGE"
"""Variable: this image is another than its file says. `no-flag` lacks --per-request-spec-decode-metrics, `no-method`
all speculation, and `hangs` never serves.
"""
MOST_TOKENS = "REHEARSAL_MOST_TOKENS_PER_STEP"
"""Variable: `k+1` (default), or `k` to verify k - 1 drafts as NxD Inference does."""


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 stopped by a signal, 1 cannot serve these files, 2 the command line is wrong."""
    settings = parse_command(sys.argv[1:] if argv is None else argv, environment=os.environ)
    try:
        if os.environ.get(IMAGE) == "no-method" and settings.speculative:
            raise EngineSettingsError("Unsupported speculative decoding method: eagle")
        if os.environ.get(IMAGE) == "hangs":
            signal.pause()
        return asyncio.run(serve(settings))
    except EngineSettingsError as error:
        print(f"vllm serve: {error}", file=sys.stderr)
        return 1


def parse_command(argv: list[str], *, environment: Mapping[str, str]) -> ServeSettings:
    """The settings of a command line. Exits with status 2 and one message that names every problem."""
    args = _parser(lacks_flag=environment.get(IMAGE) == "no-flag").parse_args(argv)
    problems = _numbers(args) + _variables(environment)
    neuron_config = _neuron_config(args.override_neuron_config, problems)
    speculative = _speculative(args.speculative_config, problems) if args.speculative_config is not None else None
    most = environment.get(MOST_TOKENS, "k+1")
    if most == "k" and speculative and speculative.num_speculative_tokens < 2:
        problems.append("--speculative-config: num_speculative_tokens must be at least 2, as k - 1 drafts are verified")
    tells_drafts = args.per_request_spec_decode_metrics != "none"
    if tells_drafts and args.speculative_config is None:
        problems.append("--per-request-spec-decode-metrics requires speculative decoding (--speculative-config)")
    if tells_drafts and most == "k":
        problems.append("--per-request-spec-decode-metrics is unknown to engines that verify k - 1 drafts")
    if problems:
        _Parser(prog="vllm serve").error("; ".join(problems))
    artifacts = environment.get("NEURON_COMPILED_ARTIFACTS")
    return ServeSettings(
        model=args.model,
        served_model_name=args.served_model_name or str(args.model),
        host=args.host,
        port=args.port,
        tensor_parallel_size=args.tensor_parallel_size,
        max_num_seqs=args.max_num_seqs,
        max_model_len=args.max_model_len,
        neuron_config=neuron_config,
        speculative=speculative,
        api_key=args.api_key or environment.get("VLLM_API_KEY") or None,
        verifies_all=most == "k+1",
        tells_drafts=tells_drafts,
        artifacts=Path(artifacts) if artifacts else None,
        compiles_for=environment.get("NEURON_PLATFORM_TARGET_OVERRIDE") or None,
    )


def _parser(*, lacks_flag: bool) -> argparse.ArgumentParser:
    parser = _Parser(prog="vllm", description="CPU engine of the rehearsal, with vLLM's command line and API.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve", parser_class=_Parser)
    serve = commands.add_parser("serve", allow_abbrev=False, help="serve a model over HTTP")
    serve.add_argument("model", type=Path, help="folder with config.json, model.safetensors and tokenizer.json")
    serve.add_argument("--served-model-name", help="the model's id in the API (default: the folder as given)")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument(
        "--tensor-parallel-size", type=int, default=1, help="pieces of the sharded checkpoint; the engine has 1 thread"
    )
    serve.add_argument("--max-num-seqs", type=int, default=4, help="sequences that are decoded together")
    serve.add_argument("--max-model-len", type=int, help="window in tokens (default: all positions of the model)")
    serve.add_argument("--override-neuron-config", default="{}", metavar="JSON", help=", ".join(NEURON_KEYS))
    serve.add_argument("--speculative-config", metavar="JSON", help=", ".join(SPECULATIVE_KEYS))
    if lacks_flag:
        serve.set_defaults(per_request_spec_decode_metrics="none")
    else:
        serve.add_argument(
            "--per-request-spec-decode-metrics", choices=("none", "summary"), default="none", help="as in vLLM 0.32"
        )
    serve.add_argument("--dtype", choices=("auto", "float32"), default="auto", help="it computes in float32")
    serve.add_argument("--api-key", help="demand this bearer token on /v1 (or VLLM_API_KEY)")
    return parser


def _numbers(args: argparse.Namespace) -> list[str]:
    """Problems of the numbers on the command line."""
    names = ("tensor_parallel_size", "max_num_seqs", "max_model_len")
    found = [
        f"--{name.replace('_', '-')} must be at least 1"
        for name in names
        if getattr(args, name) is not None and getattr(args, name) < 1
    ]
    if not 0 <= args.port <= 65535:
        found.append("--port must be from 0 to 65535")
    return found


def _variables(environment: Mapping[str, str]) -> list[str]:
    """Problems of the environment's variables."""
    found = []
    framework = environment.get("VLLM_NEURON_FRAMEWORK", FRAMEWORK)
    if framework != FRAMEWORK:
        found.append(f"VLLM_NEURON_FRAMEWORK is {framework!r}; only {FRAMEWORK!r} is known")
    most = environment.get(MOST_TOKENS, "k+1")
    if most not in ("k", "k+1"):
        found.append(f"{MOST_TOKENS} is {most!r}; it must be k or k+1")
    return found


def _neuron_config(text: str, problems: list[str]) -> dict[str, bool]:
    document = _json_object("--override-neuron-config", text, NEURON_KEYS, problems)
    problems += [
        f"--override-neuron-config: {name} must be true or false"
        for name, value in document.items()
        if name in NEURON_KEYS and not isinstance(value, bool)
    ]
    return document


def _speculative(text: str, problems: list[str]) -> Speculative | None:
    flag = "--speculative-config"
    document = _json_object(flag, text, SPECULATIVE_KEYS, problems)
    before = len(problems)
    model, k, length = document.get("model"), document.get("num_speculative_tokens", 0), document.get("max_model_len")
    if not isinstance(model, str) or not model:
        problems.append(f"{flag}: model must be the draft model's folder")
    if type(k) is not int or not 1 <= k <= MAX_SPECULATIVE_TOKENS:
        problems.append(f"{flag}: num_speculative_tokens must be from 1 to {MAX_SPECULATIVE_TOKENS}")
    if length is not None and (type(length) is not int or length < 1):
        problems.append(f"{flag}: max_model_len must be at least 1")
    if document.get("method", METHODS[0]) not in METHODS:
        problems.append(f"{flag}: method {document['method']!r} is not supported; {' or '.join(METHODS)} is")
    if len(problems) > before:
        return None
    return Speculative(
        model=Path(str(model)), num_speculative_tokens=int(k), max_model_len=length, method=document.get("method")
    )


def _json_object(flag: str, text: str, known: tuple[str, ...], problems: list[str]) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        problems.append(f"{flag} is no JSON: {error}")
        return {}
    if not isinstance(document, dict):
        problems.append(f"{flag} must be a JSON object")
        return {}
    unknown = [name for name in document if name not in known]
    if unknown:
        problems.append(f"{flag}: unknown {', '.join(unknown)} (known: {', '.join(known)})")
    return document


class _Parser(argparse.ArgumentParser):
    """argparse with errors of one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")
