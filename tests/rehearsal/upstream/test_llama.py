"""The pair as Llama models gives the same logits: a plain Llama forward pass compared with the engine's own."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from rehearsal.engine.artifact import CompiledArrays
from rehearsal.engine.config import read_model_folder
from rehearsal.engine.forward import Cache, NeuralNetwork, Segment
from rehearsal.engine.packing import pack_weights, plan_tables
from rehearsal.engine.tokenizer import Tokenizer
from rehearsal.tools import ROOT
from rehearsal.upstream.folders import write_llama

WEIGHTS = ROOT / "rehearsal" / "engine" / "weights"
TEXTS = (
    "T",
    "Count from 1 to 10: 1, 2, 3,",
    '{"id": 1, "name": "alpha"}\n{"id": 2, "name":',
    "What is the meaning of life?",
)


def llama(folder, tokens):
    """Logits of the last token, computed as in transformers' modeling_llama without its caches."""
    config, w = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
    heads, size, n = config["num_attention_heads"], config["head_dim"], len(tokens)
    angles = np.arange(n)[:, None] * config["rope_theta"] ** (-np.arange(0, size, 2) / size)
    cosine, sine = (np.concatenate([f(angles)] * 2, axis=1).astype(np.float32)[None] for f in (np.cos, np.sin))
    future = np.triu(np.full((n, n), -np.inf, np.float32), 1)

    def norm(x, gains):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(config["rms_norm_eps"])) * gains

    def rotate(x):
        return x * cosine + np.concatenate([-x[..., size // 2 :], x[..., : size // 2]], axis=-1) * sine

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):
        part = {k.split(f"layers.{layer}.")[1]: v for k, v in w.items() if f".layers.{layer}." in k}
        seen = norm(x, part["input_layernorm.weight"])
        q, k, v = (
            (seen @ part[f"self_attn.{name}_proj.weight"].T).reshape(n, heads, size).transpose(1, 0, 2)
            for name in "qkv"
        )
        scores = rotate(q) @ rotate(k).transpose(0, 2, 1) / np.float32(np.sqrt(size)) + future
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ v
        x = x + mixed.transpose(1, 0, 2).reshape(n, -1) @ part["self_attn.o_proj.weight"].T
        seen = norm(x, part["post_attention_layernorm.weight"])
        gate, up = seen @ part["mlp.gate_proj.weight"].T, seen @ part["mlp.up_proj.weight"].T
        with np.errstate(over="ignore"):
            x = x + (gate / (1 + np.exp(-gate)) * up) @ part["mlp.down_proj.weight"].T
    return norm(x[-1], w["model.norm.weight"]) @ w["lm_head.weight"].T


@pytest.mark.parametrize("name", ["pair-target", "pair-draft"])
def test_the_llama_model_has_the_embedded_models_logits(name, tmp_path):
    whole = read_model_folder(WEIGHTS / name)
    source = replace(whole, config=replace(whole.config, num_hidden_layers=min(2, whole.config.num_hidden_layers)))
    write_llama(source, tmp_path)
    compiled = CompiledArrays(weights=pack_weights(source), tables=plan_tables(source.config, positions=64))
    network, tokenizer = NeuralNetwork(source.config, compiled), Tokenizer(source.tokenizer)
    for text in TEXTS:
        tokens = [source.config.bos_token_id, *tokenizer.encode(text)]
        segment = Segment(cache=Cache(source.config, positions=64), tokens=tokens, start=0, wanted=1)
        (expected,) = network.forward([segment])[0]
        found = llama(tmp_path, tokens)
        assert found.argmax() == expected.argmax()
        assert np.abs(found - expected).max() < 1e-3, "two tokens that lead differ by 2e-2 at least (engine_margins.py)"


def test_the_folder_has_what_a_loader_reads_and_begins_every_text_with_the_beginning_token(tmp_path):
    write_llama(read_model_folder(WEIGHTS / "pair-draft"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["hidden_size"] % config["num_attention_heads"] == 0, "transformers refuses it otherwise"
    shapes = {name: array.shape for name, array in load_file(tmp_path / "model.safetensors").items()}
    assert shapes["model.embed_tokens.weight"] == shapes["lm_head.weight"] == (768, config["hidden_size"])
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    assert tokenizer["post_processor"]["single"][0] == {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert settings["bos_token"] == settings["eos_token"] == "<|endoftext|>"
