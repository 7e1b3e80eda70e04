"""Rules of the native Neuron plugin: what it refuses at its start, or takes and ignores, is refused here.

Sources: Neuron 2.32's vllm-neuron/docs, guides/reference-configuration.md ("Compilation options", "What triggers
recompilation"), design/vllm/additional-config.md and design/compilation/cpu_compilation.md.
"""

from collections.abc import Iterator
from typing import Any

from specdecode.experiment.effective import SKIP, arguments, effective, flags, neuron_config, serving_env, whole_numbers
from specdecode.experiment.engine import Dialect
from specdecode.experiment.rules.case import Finding, ServedCase
from specdecode.experiment.variants import ServedVariant

SEGMENTS = (512, 1024, 2048, 4096, 8192)
SINGLE_SHOT = 16 * 1024
"""Longest max_model_len without segments (vllm_neuron/utils/bucket_utils.py, MAX_MODEL_LEN_SINGLE_SHOT)."""
BLOCK = 32
"""Tokens of a KV block without `--block-size`."""
MOVED = {
    "save_sharded_checkpoint": "leave it out: ranks read their slices of the weights by themselves",
    "context_encoding_buckets": "write num_batched_tokens_buckets",
    "token_generation_buckets": "write decode_context_length_buckets",
    "sequence_parallel_enabled": "leave it out: it is always on",
    "enable_bucketing": "leave it out: it is always on",
    "max_context_length": "leave it out: use --max-num-batched-tokens",
    "logical_nc_config": "leave it out: it is always 2",
    "quantization_type": "leave it out: it is read from the checkpoint",
}
"""Keys of NxD Inference that the plugin does not read, and what to do (its migration guide)."""


def efa(case: ServedCase) -> Iterator[Finding]:
    """A worker that looks for the EFA interfaces of its node ends without them. Nodes of others may have some."""
    node = case.capacity.of(case.experiment.node)
    fix = f"leave {SKIP} out: it is 0 by itself where the deployment has the setting efa_interfaces=true"
    for variant in case.experiment.variants if SKIP in case.engine.env else ():
        said = serving_env(case.experiment, variant, case.engine)[SKIP]
        if not said.isdigit():
            yield f"variants.{variant.name}", f"the worker reads {SKIP} as a number, and it is {said!r}", fix
        elif not int(said) and node.ami and not node.efa_interfaces:
            yield f"variants.{variant.name}", "the node has no EFA interface, and a worker that looks for one ends", fix


def moved_keys(case: ServedCase) -> Iterator[Finding]:
    """Keys of NxD Inference in a configuration of the native plugin."""
    for field, config in case.given("neuron_config"):
        for key in (key for key in config if key in MOVED):
            message = f"{key} belongs to NxD Inference, which the native plugin does not use"
            yield f"{field}.{key}", message, MOVED[key]


def buckets(case: ServedCase) -> Iterator[Finding]:
    """Buckets end where the batch ends."""
    found: dict[str, tuple[str, str]] = {}
    for variant, config, given in _arms(case):
        for key, flag, limit in (
            ("num_batched_tokens_buckets", "--max-num-batched-tokens", given.get("--max-num-batched-tokens")),
            ("num_seqs_buckets", "max_num_seqs", case.experiment.serving_of(variant).max_num_seqs),
        ):
            sizes = whole_numbers(config.get(key))
            if key in config and (not sizes or sorted(set(sizes)) != sizes or str(sizes[-1]) != str(limit)):
                message = f"{key} {config[key]} must rise and end with {flag}, which is {limit or 'not said'}"
                found.setdefault(_where(variant, key), (message, f"say {flag}, and end the buckets with it"))
    yield from ((field, *said) for field, said in found.items())


def segments(case: ServedCase) -> Iterator[Finding]:
    """Prefix caching needs segmented prefill, whose segments the kernel limits."""
    found: dict[str, tuple[str, str]] = {}
    for variant, config, given in _arms(case):
        field = _where(variant, "kv_segment_size_buckets")
        sizes, block = whole_numbers(config.get("kv_segment_size_buckets")), number(given, "--block-size", BLOCK)
        cached = effective(case.experiment, variant, case.engine).get("--enable-prefix-caching")
        if cached and not sizes:
            message = "prefix caching needs segmented prefill, or the server does not start"
            found.setdefault(field, (message, "say --no-enable-prefix-caching, or give kv_segment_size_buckets"))
        if odd := [size for size in sizes if size not in SEGMENTS or size % block]:
            allowed = f"one of {', '.join(map(str, SEGMENTS))}, and a multiple of the block size {block}"
            found.setdefault(field, (f"segments of {odd} tokens: each is {allowed}", "choose such sizes"))
        elif sizes and config.get("num_batched_tokens_buckets", sizes) != sizes:
            message = f"segments {sizes} differ from num_batched_tokens_buckets {config['num_batched_tokens_buckets']}"
            found.setdefault(field, (message, "give both the same sizes"))
    yield from ((field, *said) for field, said in found.items())


def reading(longest: int, batched: int, config: dict[str, Any]) -> str | None:
    """How prompts of up to `longest` tokens are read, `batched` of them in a step. None if the plugin refuses it
    (vllm_neuron/utils/bucket_utils.py, resolve_segmented_prefill_config and validate_kv_segment_size_buckets).
    """
    segments, tokens = config.get("kv_segment_size_buckets"), whole_numbers(config.get("num_batched_tokens_buckets"))
    if batched >= longest and not segments:
        return f"single shot, {longest} tokens" if longest <= SINGLE_SHOT else None
    (size, *more) = segments = segments or [batched]
    return f"segments of {size}" if size in SEGMENTS and not more and tokens in ([], segments) else None


def compiling_without_devices(case: ServedCase) -> Iterator[Finding]:
    """Speculation is not compiled on a CPU."""
    for variant, _, _ in _arms(case):
        env = serving_env(case.experiment, variant, case.engine)
        if variant.speculation and env.get("VLLM_NEURON_CPU_COMPILE", "0") not in ("0", ""):
            field = f"variants.{variant.name}.env.VLLM_NEURON_CPU_COMPILE"
            yield field, "the plugin cannot compile speculation without devices", "leave it out"


def _arms(case: ServedCase) -> Iterator[tuple[ServedVariant, dict[str, Any], dict[str, Any]]]:
    """Each arm of the plugin with its Neuron configuration and flags."""
    for variant in case.experiment.variants if case.engine.dialect is Dialect.NATIVE_PLUGIN else ():
        arm = case.experiment, variant, case.engine
        yield variant, neuron_config(*arm), flags(arguments(*arm))


def _where(variant: ServedVariant, key: str) -> str:
    """Field that says `key` for an arm: its own, or the one that all share."""
    holder = f"variants.{variant.name}" if key in variant.neuron_config else "serving"
    return f"{holder}.neuron_config.{key}"


def number(given: dict[str, Any], flag: str, otherwise: int) -> int:
    """What a flag says; `otherwise` without it, or if the value is no number (another rule refuses that)."""
    said = str(given.get(flag, otherwise))
    return int(said) if said.isdecimal() and int(said) else otherwise
