"""Turn a model's trained weights into the matrices of the forward pass: fewer, larger, contiguous."""

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from rehearsal.engine.config import ModelConfig, ModelFolder
from rehearsal.engine.errors import EngineSettingsError

Array = NDArray[np.float32]
Arrays = dict[str, Array]

MATRICES = ("qkv", "out", "up", "down")


def pack_weights(folder: ModelFolder) -> Arrays:
    """Matrices with the RMSNorm gains folded in, the attention scale folded into the queries, the head transposed."""
    try:
        raw = load_file(folder.weights)
    except (OSError, SafetensorError) as error:
        raise EngineSettingsError(f"{folder.weights} cannot be read: {error}") from error
    config = folder.config
    try:
        packed = {f"embedding.{i}": raw[f"E.{i}"] for i in range(config.ngram_embeddings)}
        packed["head"] = (raw["E.0"] * raw["nf"]).T
        for layer in range(config.num_hidden_layers):
            source = f"ls.{layer}."
            qkv = raw[source + "qkv"] * raw[source + "n1"][:, None]
            qkv[:, : config.hidden_size] /= np.sqrt(config.head_dim)
            packed[f"{layer}.qkv"] = qkv
            packed[f"{layer}.out"] = raw[source + "o"]
            packed[f"{layer}.up"] = raw[source + "up"] * raw[source + "n2"][:, None]
            packed[f"{layer}.down"] = raw[source + "dn"]
    except KeyError as error:
        raise EngineSettingsError(f"{folder.weights} lacks the tensor {error}") from error
    packed = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in packed.items()}
    wrong = [
        f"{name} is {array.shape}, not {expected}"
        for name, array in packed.items()
        if array.shape != (expected := _shape(name, config))
    ]
    if wrong:
        raise EngineSettingsError(f"{folder.weights} does not fit its config.json: {'; '.join(wrong)}")
    return packed


def plan_tables(config: ModelConfig, *, positions: int) -> Arrays:
    """Rotary tables for `positions` positions. They depend on the served window."""
    inverse = config.rope_theta ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
    angle = np.arange(positions)[:, None] * inverse
    return {
        "cosine": np.concatenate([np.cos(angle)] * 2, axis=1).astype(np.float32),
        "sine": np.concatenate([-np.sin(angle), np.sin(angle)], axis=1).astype(np.float32),
    }


def shard(packed: Arrays, *, ranks: int) -> list[Arrays]:
    """Cut every matrix along its first axis into `ranks` pieces, as a tensor-parallel checkpoint is cut."""
    pieces = {name: np.array_split(array, ranks) for name, array in packed.items()}
    return [{name: np.ascontiguousarray(parts[rank]) for name, parts in pieces.items()} for rank in range(ranks)]


def unshard(shards: list[Arrays]) -> Arrays:
    """The whole matrices from their shards: the inverse of `shard`."""
    return {name: np.concatenate([piece[name] for piece in shards]) for name in shards[0]}


def _shape(name: str, config: ModelConfig) -> tuple[int, int]:
    d, m, v = config.hidden_size, config.intermediate_size, config.vocab_size
    kind = name.split(".")[-1]
    return {"head": (d, v), "qkv": (d, 3 * d), "out": (d, d), "up": (d, m), "down": (m, d)}.get(kind, (v, d))
