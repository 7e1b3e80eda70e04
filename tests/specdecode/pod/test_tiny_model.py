"""Tiny models: valid safetensors of the first layers alone, a configuration that says so, and damaged files refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save
from specdecode import finished
from specdecode.exit_codes import Exit
from specdecode.pod import tiny_model
from specdecode.pod.bucket import Bucket
from specdecode.pod.compile import NOTHING_TO_DO
from specdecode.pod.program import PodError
from specdecode.pod.tiny_model import Tensor, first_layers, make, shortened, with_fewer_targets, write

from tests.finished_folders import entries
from tests.specdecode.steps.aws_fake import FakeS3

MODEL = "models/llama/"


def bucket_with(prefix: str, files: dict[str, bytes]) -> Bucket:
    bucket = Bucket("b", FakeS3({prefix + path: data for path, data in files.items()}))
    bucket.finish(prefix, entries(files), about={})
    return bucket


def llama(layers: int = 4) -> dict[str, bytes]:
    """Two files of a model as the hub has them, with an index, a tokenizer, and weights in other formats beside."""
    whole = {"model.embed_tokens.weight": np.ones((32, 8), np.float32), "lm_head.weight": np.ones((32, 8), np.float16)}
    parts = {f"model.layers.{n}.mlp.experts.{e}.w": np.ones((8, 8), np.float32) for n in range(layers) for e in (0, 1)}
    config = {
        "num_hidden_layers": layers,
        "layer_types": ["sliding", "full"] * (layers // 2),
        "eos_token_id": list(range(layers)),
        "nested": {"num_hidden_layers": layers, "deeper": {"num_hidden_layers": 1}},
    }
    return {
        "config.json": json.dumps(config).encode(),
        "model-1.safetensors": save(whole),
        "model-2.safetensors": save(parts),
        "model.safetensors.index.json": b"{}",
        "tokenizer.json": b"{}",
        "pytorch_model.bin": b"pickled",
        "original/other.safetensors": save(whole),
    }


def test_a_tiny_model_has_the_tensors_of_the_first_layers_and_a_configuration_that_says_so():
    assert make(bucket_with(MODEL, llama()), MODEL, layers=2, is_head=False)
    assert sorted(path.name for path in Path(MODEL).iterdir() if path.is_file()) == [
        "config.json", "model.safetensors", "tokenizer.json",
    ]  # fmt: skip
    tensors = load_file(Path(MODEL) / "model.safetensors")
    assert sorted(tensors) == [
        "lm_head.weight", "model.embed_tokens.weight",
        *(f"model.layers.{n}.mlp.experts.{e}.w" for n in (0, 1) for e in (0, 1)),
    ]  # fmt: skip
    assert tensors["lm_head.weight"].dtype == np.float16
    assert all(np.isfinite(it).all() and 1e-4 < np.abs(it).mean() < 0.1 for it in tensors.values())
    assert len(np.unique(tensors["model.embed_tokens.weight"])) > 100
    assert json.loads((Path(MODEL) / "config.json").read_text()) == {
        "num_hidden_layers": 2,
        "layer_types": ["sliding", "full"],
        "eos_token_id": [0, 1, 2, 3],
        "nested": {"num_hidden_layers": 2, "deeper": {"num_hidden_layers": 1}},
    }


def test_a_model_that_is_small_already_keeps_its_layers():
    make(bucket_with(MODEL, llama(2)), MODEL, layers=8, is_head=False)
    assert len(load_file(Path(MODEL) / "model.safetensors")) == 6


def test_a_head_stays_whole_and_listens_to_layers_that_its_target_has():
    given = {"num_hidden_layers": 5, "num_target_layers": 32, "dflash_config": {"target_layer_ids": [1, 8, 15, 22, 29]}}
    head = with_fewer_targets(given, 8)
    assert head == {
        "num_hidden_layers": 5,
        "num_target_layers": 8,
        "dflash_config": {"target_layer_ids": [1, 2, 3, 4, 6]},
    }
    assert with_fewer_targets({"eagle_aux_hidden_state_layer_ids": [2, 16, 29]}, 8)[
        "eagle_aux_hidden_state_layer_ids"
    ] == [1, 3, 6]
    assert shortened(given, 32, 8)["num_hidden_layers"] == 5


def test_only_names_with_a_number_for_every_layer_are_cut():
    tensors = {name: Tensor("F32", [1], 4) for name in ("ls.0.w", "ls.1.w", "ls.2.w", "E.0", "E.5", "fc.3.w", "n")}
    assert sorted(first_layers(tensors, 3, 1)) == ["E.0", "E.5", "fc.3.w", "ls.0.w", "n"]


@pytest.mark.parametrize("dtype", [*tiny_model._FLOATS, "U8", "I64", "F8_E8M0"])
def test_values_of_every_type_are_finite(dtype):
    write(Path("x.safetensors"), {"a": Tensor(dtype, [24], 24 * tiny_model._FLOATS.get(dtype, (1,))[0])})
    data = Path("x.safetensors").read_bytes()
    values = data[-24 * tiny_model._FLOATS.get(dtype, (1,))[0] :]
    if dtype in ("F16", "F32", "F64"):
        found = np.frombuffer(values, {"F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype])
    elif dtype == "BF16":
        found = (np.frombuffer(values, "<u2").astype("<u4") << 16).view("<f4")
    else:  # no infinities and no NaN: not all bits of the exponent are set
        exponents = {"F8_E4M3": 0x78, "F8_E5M2": 0x7C}.get(dtype)
        assert all(exponents and byte & exponents not in (0, exponents) for byte in values) or not any(values)
        return
    assert np.isfinite(found).all() and (np.abs(found) > 0).all() and (np.abs(found) < 1).all()


def test_weights_in_another_format_are_not_checked_and_nothing_fails(monkeypatch, capsys):
    files = {path: data for path, data in llama().items() if not path.endswith(".safetensors")}
    monkeypatch.setattr(tiny_model, "Bucket", lambda _: bucket_with(MODEL, files))
    tiny_model.main(["--bucket", "b", "--layers", "2", "--model", MODEL])
    assert NOTHING_TO_DO.exists() and "nothing is checked" in capsys.readouterr().out


_TENSOR = {"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 9999]}}
TOO_MUCH = (2**7).to_bytes(8, "little") + json.dumps(_TENSOR).ljust(2**7).encode()


@pytest.mark.parametrize(
    ("path", "data", "says"),
    [
        ("model-1.safetensors", b"\xff" * 40, "no safetensors"),
        ("model-1.safetensors", b"\x04" + b"\0" * 7 + b"nope" + b" " * 9, "no header"),
        ("model-1.safetensors", b"\x04" + b"\0" * 7 + b"[1] " + b" " * 9, "no header"),
        ("model-1.safetensors", TOO_MUCH, "more than the file"),
        ("config.json", b"[]", "no configuration"),
        ("config.json", b'{"num_hidden_layers": 4, "a":' + b'{"a":' * 900 + b"1" + b"}" * 901, "configuration"),
    ],
    ids=["length", "json", "list", "larger", "no-config", "nested"],
)
def test_damaged_files_are_refused(path, data, says):
    with pytest.raises(PodError, match=says) as raised:
        make(bucket_with(MODEL, {**llama(), path: data}), MODEL, layers=2, is_head=False)
    assert raised.value.code == Exit.CORRUPT


def header_of(file: bytes) -> bytes:
    return file[: 8 + int.from_bytes(file[:8], "little")]


def test_a_header_that_changed_after_it_was_stored_is_damaged_whichever_of_its_bytes():
    """So it is set aside and staged again. One that came so from the hub would come so again."""
    bucket = bucket_with(MODEL, llama())
    stored = llama()["model-1.safetensors"]
    for at in range(len(header_of(stored))):
        changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        bucket._store.write(MODEL + "model-1.safetensors", changed)
        with pytest.raises(PodError, match=r"header of .*model-1\.safetensors differs") as raised:
            make(bucket, MODEL, layers=2, is_head=False)
        assert raised.value.code == Exit.DAMAGED_MODEL


def test_a_folder_that_was_finished_before_headers_had_hashes_is_the_same_folder():
    bucket = bucket_with(MODEL, llama())
    old = [replace(it, header="") for it in entries(llama())]
    assert finished.content(old) == finished.content(entries(llama()))
    bucket.finish(MODEL, old, about={})
    assert make(bucket, MODEL, layers=2, is_head=False)


@pytest.mark.parametrize(("changed", "code"), [(True, Exit.DAMAGED_MODEL), (False, Exit.CORRUPT)])
def test_without_a_hash_of_the_header_that_of_the_whole_file_says_whether_it_changed_after_it_was_stored(changed, code):
    files = llama()
    broken = files["model-1.safetensors"].replace(b"{", b"[", 1)
    bucket = bucket_with(MODEL, files := {**files, "model-1.safetensors": broken})
    entries_then = entries(llama() if changed else files)
    bucket.finish(MODEL, [replace(it, header="") for it in entries_then], about={})
    with pytest.raises(PodError, match="differs" if changed else "no header") as raised:
        make(bucket, MODEL, layers=2, is_head=False)
    assert raised.value.code == code


def test_a_model_that_was_never_finished_is_refused():
    with pytest.raises(PodError) as raised:
        make(Bucket("b", FakeS3()), MODEL, layers=2, is_head=False)
    assert raised.value.code == Exit.INCOMPLETE
