"""Every system of the articles, the sample and the tutorials is one name away, in its published shape."""

from collections import Counter

import pytest
import yaml
from specdecode.experiment import assets_dir, load_engine, load_preset, preset_names
from specdecode.experiment.engine import Dialect
from specdecode.experiment.prompt_sets import shipped
from specdecode.experiment.variants import Method
from specdecode.experiment.workload import PromptKind

SHAPES = {
    # name: variants, devices, TP, seqs, len, in, out, requests, concurrency, cases
    "account-check": (2, 0, 1, 2, 1024, 64, 64, 4, 1, 2),
    "qwen3-32b-forecast": (3, 0, 1, 32, 1024, 64, 200, 8, 32, 11),
    "rehearsal-account-check": (2, 0, 1, 2, 1024, 64, 64, 4, 1, 2),
    "qwen3-32b": (2, 8, 32, 4, 1024, 64, 600, 8, 4, 23),
    "qwen3-32b-tuning": (23, 8, 32, 4, 1024, 64, 600, 8, 4, 4),
    "qwen3-32b-latency": (2, 16, 64, 1, 6400, 128, 512, 10, 1, 3),
    "qwen3-32b-load": (2, 8, 32, 16, 1024, 64, 300, 12, 1, 2, 4, 8, 12, 16, 4),
    "llama-3.1-405b": (3, 16, 64, 1, 12800, 10000, 1500, 50, 1, 1),
    "llama-3.1-8b-eagle3": (3, 4, 8, 2, 2048, 512, 128, 50, 2, 3),
    "llama-3.1-8b-eagle3-small": (2, 1, 4, 2, 2048, 512, 128, 50, 2, 3),
    "gpt-oss-20b-eagle3-small": (2, 1, 4, 4, 4096, 512, 128, 30, 4, 3),
    "gpt-oss-120b-eagle3": (3, 4, 16, 1, 768, 512, 128, 30, 1, 3),
    "llama-3.3-70b-fp8-eagle3": (3, 4, 16, 8, 16384, 2048, 256, 32, 8, 3),
    "llama-3.1-8b-dflash": (3, 1, 4, 4, 8192, 512, 128, 30, 1, 3),
    "qwen3-32b-native": (2, 4, 8, 4, 1024, 64, 600, 8, 4, 10),
    "rehearsal": (2, 8, 32, 4, 1024, 64, 64, 8, 1, 9),
    "rehearsal-forecast": (3, 0, 1, 4, 1024, 64, 64, 8, 1, 9),
    "rehearsal-load": (2, 8, 32, 32, 1024, 64, 48, 12, 1, 2, 4, 8, 16, 32, 2),
    "rehearsal-nxdi": (2, 8, 32, 4, 1024, 64, 64, 6, 1, 2),
    "rehearsal-small": (2, 1, 4, 4, 1024, 64, 64, 8, 1, 2),
    "rehearsal-sweep": (5, 8, 32, 4, 1024, 64, 32, 6, 1, 2),
    "rehearsal-tuning": (6, 8, 32, 1, 1024, 64, 256, 8, 4, 8),
    "rehearsal-vllm": (2, 8, 1, 4, 1024, 64, 64, 6, 1, 9),
}


def test_these_are_all():
    assert set(preset_names()) == set(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name):
    e = load_preset(name)
    s, w = e.serving, e.workload
    shape = (len(e.variants), s.devices, s.tensor_parallel_size, s.max_num_seqs, s.max_model_len)
    load = (w.input_tokens, w.output_tokens, w.requests.max, *w.concurrency, len(w.cases))
    assert shape + load == SHAPES[name]
    assert w.temperature == 0
    assert s.logical_neuron_core == 2
    sharded = s.neuron_config.get("save_sharded_checkpoint", False)
    native = load_engine(e.engine).dialect is Dialect.NATIVE_PLUGIN
    plain = load_engine(e.engine).dialect is Dialect.UPSTREAM
    assert sharded or native or plain, "in every arm: a slow start of one only is unequal"
    assert any(c.structured for c in w.cases) or name == "llama-3.1-405b"
    assert any(not c.structured for c in w.cases)


@pytest.mark.parametrize("name", SHAPES)
def test_file_is_a_screen_and_explains_itself(name):
    text = (assets_dir() / "experiments" / f"{name}.yaml").read_text()
    assert len(text.splitlines()) <= 80
    assert text.startswith("#")
    assert max(map(len, text.splitlines())) <= 160


def test_tuning_sweeps_two_drafts_and_eleven_k_against_one_base():
    e = load_preset("qwen3-32b-tuning")
    swept = {(v.speculation.draft.id, v.speculation.num_speculative_tokens) for v in e.variants if v.speculation}
    assert swept == {(f"Qwen/Qwen3-{size}", k) for size in ("0.6B", "1.7B") for k in range(5, 16)}
    assert {v.compare_to for v in e.variants if v.speculation} == {"base"}
    assert e.variant("sd-qwen3-0.6b-k10").label == "SD-qwen3-0.6b-k10"


def test_405b_separates_quantization_from_speculation():
    e = load_preset("llama-3.1-405b")
    base, fp8, sd = e.variants
    assert (base.quantization, fp8.quantization, sd.quantization) == ("bf16", "fp8", "fp8")
    assert (fp8.compare_to, sd.compare_to) == ("base", "base-fp8")
    assert fp8.target == sd.target and fp8.target.rescale_fp8
    assert fp8.env == sd.env == {"XLA_HANDLE_SPECIAL_SCALAR": "1", "UNSAFE_FP8FNCAST": "1"}
    assert e.serving.env["NEURON_RT_EXEC_TIMEOUT"] == "600" and e.serving.env["NEURON_RT_NUM_CORES"] == "64"
    kept = fp8.neuron_config["modules_to_not_convert"]
    assert len(kept) == 3 + 126 and "layers.125.self_attn" in kept
    added = {k: v for k, v in sd.neuron_config.items() if fp8.neuron_config.get(k) != v}
    assert set(added) == {"draft_model_modules_to_not_convert"}
    assert not any("-" in key for key in [*sd.neuron_config, *e.serving.neuron_config])


def test_models_are_pinned_where_a_commit_is_known():
    presets = [load_preset(name) for name in preset_names()]
    models = [model for e in presets for v in e.variants for model in e.models_of(v)]
    natives = {"meta-llama/Llama-3.1-8B-Instruct", "openai/gpt-oss-120b", "nvidia/Llama-3.3-70B-Instruct-FP8"}
    heads = ("RedHatAI/", "z-lab/")
    unpinned = {model.id for model in models if model.revision == "main" and not model.id.startswith(heads)} - natives
    assert unpinned == {"meta-llama/Llama-3.1-405B-Instruct-FP8"}


def test_cases_of_the_sample_word_for_word():
    cases = {c.name: c for c in load_preset("qwen3-32b").workload.cases}
    sample = [c for c in cases.values() if c.source == "public sample"]
    assert {c.text for c in sample} == {
        "counting numbers from 1 ",
        "",
        "a",
        "hello world ",
        "the cat sat on the mat. ",
        "Output valid JSON with fixed keys",
        "Write a simple Python function skeleton",
        "List numbers from one to twenty",
    }
    assert all(c.label == (c.text.replace(" ", "_") or "__SHAKESPEARE__") for c in sample)
    assert (
        cases["meaning-of-life"].text == "I believe the meaning of life is" and not cases["meaning-of-life"].structured
    )
    assert "exactly 50 times" in cases["repeat-line"].text and cases["repeat-line"].structured
    lines = (assets_dir() / "prompts" / "sonnets.txt").read_text().splitlines()
    assert lines[0] == "Shall I compare thee to a summer's day?"
    assert yaml.safe_load((assets_dir() / "prompts" / "cases.yaml").read_text())["shakespeare"]["kind"] == "sonnet"


def test_rehearsal_prompts_suit_the_pair():
    texts = [case.text for case in load_preset("rehearsal").workload.cases if case.kind is not PromptKind.SET]
    rows = shipped("pair").rows
    texts += [turn for row in rows for turn in row.turns]
    assert min(Counter(row.category for row in rows).values()) >= 6, "with three or four, one slow answer hides a gain"
    for text in texts:
        assert text and text == text.rstrip(), "a prompt that ends in a space tokenizes badly"
        assert text.isascii()


def test_the_speculation_of_each():
    def of(name, variant):
        s = load_preset(name).variant(variant).speculation
        return s.draft.id, s.num_speculative_tokens, s.method

    assert of("qwen3-32b", "sd") == ("Qwen/Qwen3-1.7B", 7, Method.FUSED_DRAFT)
    assert of("qwen3-32b-latency", "sd") == ("Qwen/Qwen3-0.6B", 7, Method.FUSED_DRAFT)
    assert of("llama-3.1-405b", "sd-fp8") == ("meta-llama/Llama-3.2-1B-Instruct", 7, Method.FUSED_DRAFT)
    assert of("rehearsal", "sd") == ("specdecode/pair-draft", 5, Method.FUSED_DRAFT)
    for name, seconds in {"qwen3-32b": 1200, "qwen3-32b-latency": 1200, "llama-3.1-405b": 3600}.items():
        assert load_preset(name).workload.timeout_s == seconds
