"""A model of the pair as a Llama model that gives the same answers. Any server that loads Llama models can load it.

The embedded architecture differs from Llama in three ways, and each becomes something that a Llama model has:

- *Its input is the sum of the embeddings of a token and of the three before it.* Here a token's embedding holds all
  four tables side by side, and one more layer, the first, adds them up: head after head looks at the position 0, 1, 2
  or 3 back and carries that table's part to the front. Queries and keys come from one dimension that is the same for
  every token, so that rotary positions alone decide where a head looks. A position with fewer tokens before it looks
  at the first token, which begins every text, as the embedded engine assumes.
- *Squared ReLU without a gate.* SiLU(s z) z / s is z² for positive z and 0 for negative, to the last bit for a large s.
- *A tied head.* The head is written out.

The embeddings are scaled down by SMALL: the first layer's norm is then linear (epsilon is all of its root), and what is
left of the tables beside their sum is too small to count in the norms that follow. All scales are powers of two.

Why it is so: ADR 30.
"""

import math

import numpy as np

from rehearsal.engine.config import ModelConfig
from rehearsal.engine.packing import Array, Arrays

SMALL = 2.0**-24
"""Scale of the embeddings. Below 2^-20 the square of what it scales vanishes beside RMSNorm's epsilon."""
STEEP = 2.0**20
"""s of SiLU(s z) z / s. The error against z² is at most 0.6 / s²."""
LEAD = 40.0
"""Lead of a head's score for its position over that of the next. exp(-40) vanishes in float32."""
ALIGNMENT = 16
"""Widths are multiples of this, which vector kernels prefer."""


def llama_config(config: ModelConfig) -> dict[str, object]:
    """The model's config.json as Hugging Face and vLLM read it."""
    heads = _copy_heads(config)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": width(config),
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers + 1,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_position_embeddings,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": _epsilon(config),
        "bos_token_id": config.bos_token_id,
        "eos_token_id": config.eos_token_id,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "float32",
    }


def llama_weights(config: ModelConfig, raw: Arrays) -> Arrays:
    """The tensors of a Llama checkpoint from those of the pair's model.safetensors (matrices are [out, in] there)."""
    tensors = {
        "model.embed_tokens.weight": _embeddings(config, raw),
        "model.norm.weight": _gains(config, raw["nf"]),
        "lm_head.weight": _padded(raw["E.0"], config.vocab_size, width(config)),
        **_named(0, _adding_layer(config)),
    }
    for layer in range(config.num_hidden_layers):
        tensors |= _named(layer + 1, _layer(config, raw, f"ls.{layer}."))
    return {name: np.ascontiguousarray(array, np.float32) for name, array in tensors.items()}


def width(config: ModelConfig) -> int:
    """Hidden size: the tables side by side and one constant, as a multiple of the heads' number."""
    step = math.lcm(ALIGNMENT, _copy_heads(config))
    return math.ceil((config.ngram_embeddings * config.hidden_size + 1) / step) * step


def _copy_heads(config: ModelConfig) -> int:
    return config.ngram_embeddings * config.heads


def _epsilon(config: ModelConfig) -> float:
    """Epsilon of the norms. The mean of squares is over more dimensions here; with this epsilon the norm differs by a
    known factor only.
    """
    return config.rms_norm_eps * config.hidden_size / width(config)


def _named(layer: int, tensors: Arrays) -> Arrays:
    return {f"model.layers.{layer}.{name}.weight": array for name, array in tensors.items()}


def _padded(matrix: Array, rows: int, columns: int) -> Array:
    padded = np.zeros((rows, columns), np.float32)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return padded


def _embeddings(config: ModelConfig, raw: Arrays) -> Array:
    tables = [raw[f"E.{back}"] for back in range(config.ngram_embeddings)]
    constant = np.ones((config.vocab_size, 1), np.float32)
    return _padded(np.concatenate([*tables, constant], axis=1), config.vocab_size, width(config)) * SMALL


def _gains(config: ModelConfig, gains: Array) -> Array:
    """Gains of a norm; zero for the dimensions beside the sum."""
    padded = np.zeros(width(config), np.float32)
    padded[: config.hidden_size] = gains * math.sqrt(config.hidden_size / width(config))
    return padded


def _adding_layer(config: ModelConfig) -> Arrays:
    """The first layer: each head carries its 64 dimensions of one table from the position 0, 1, 2 or 3 back to the
    front.
    """
    wide, size, half = width(config), config.head_dim, config.head_dim // 2
    rows = _copy_heads(config) * size
    queries, keys, values = (np.zeros((rows, wide), np.float32) for _ in range(3))
    out = np.zeros((wide, rows), np.float32)
    angles = config.rope_theta ** (-np.arange(0, size, 2) / size)
    seen = SMALL / math.sqrt(_epsilon(config))  # what the norm makes of the constant
    constant = config.ngram_embeddings * config.hidden_size
    # q·k/√size is then LEAD / Σ(1-cos θ) · Σ cos(θ (distance - back)): largest at `back`, by LEAD more than beside it.
    strength = math.sqrt(LEAD * math.sqrt(size) / (1 - np.cos(angles)).sum()) / seen
    for back in range(config.ngram_embeddings):
        for part in range(config.heads):
            first = (back * config.heads + part) * size
            queries[first : first + half, constant] = strength * np.cos(angles * back)
            queries[first + half : first + size, constant] = -strength * np.sin(angles * back)
            keys[first : first + half, constant] = strength
            dims = np.arange(size)
            values[first + dims, back * config.hidden_size + part * size + dims] = 1
            out[part * size + dims, first + dims] = 1 / seen
    nothing = np.zeros((config.intermediate_size, wide), np.float32)
    return {
        "input_layernorm": np.ones(wide, np.float32),
        "self_attn.q_proj": queries,
        "self_attn.k_proj": keys,
        "self_attn.v_proj": values,
        "self_attn.o_proj": out,
        "post_attention_layernorm": np.ones(wide, np.float32),
        "mlp.gate_proj": nothing,
        "mlp.up_proj": nothing,
        "mlp.down_proj": nothing.T,
    }


def _layer(config: ModelConfig, raw: Arrays, source: str) -> Arrays:
    """A layer of the pair. The heads that only the first layer uses are zero."""
    wide, rows = width(config), _copy_heads(config) * config.head_dim
    query, key, value = (_padded(part.T, rows, wide) for part in np.split(raw[source + "qkv"], 3, axis=1))
    up = _padded(raw[source + "up"].T, config.intermediate_size, wide)
    return {
        "input_layernorm": _gains(config, raw[source + "n1"]),
        "self_attn.q_proj": query,
        "self_attn.k_proj": key,
        "self_attn.v_proj": value,
        "self_attn.o_proj": _padded(raw[source + "o"].T, wide, rows),
        "post_attention_layernorm": _gains(config, raw[source + "n2"]),
        "mlp.gate_proj": up * np.float32(STEEP),
        "mlp.up_proj": up,
        "mlp.down_proj": _padded(raw[source + "dn"].T, wide, config.intermediate_size) / np.float32(STEEP),
    }
