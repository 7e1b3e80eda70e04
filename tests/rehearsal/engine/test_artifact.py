import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rehearsal.engine.artifact import compile_settings, load_or_compile
from rehearsal.engine.config import ServeSettings, read_model_folder
from rehearsal.engine.errors import EngineSettingsError
from rehearsal.engine.start_up import load_engine

from .conftest import DRAFT, TARGET, speculating

SHARDED = {"save_sharded_checkpoint": True}


def compiled(settings: ServeSettings) -> tuple[dict[str, Any], str]:
    folders = {"target": read_model_folder(TARGET), "draft": read_model_folder(DRAFT)}
    made_for = compile_settings(settings, folders=folders, window=512)
    return load_or_compile(settings.artifacts, made_for=made_for, folders=folders)


@pytest.fixture
def settings(tmp_path: Path) -> ServeSettings:
    return speculating(5, artifacts=tmp_path / "compiled", neuron_config=SHARDED, tensor_parallel_size=5)


def test_what_was_compiled_is_loaded_again_bit_for_bit(settings: ServeSettings) -> None:
    first, origin = compiled(settings)
    assert "compiled into" in origin
    assert len(list(settings.artifacts.glob("weights/tp*_sharded_checkpoint.safetensors"))) == 5
    before = {path: path.stat().st_mtime_ns for path in settings.artifacts.rglob("*")}
    second, origin = compiled(settings)
    assert "loaded" in origin
    assert before == {path: path.stat().st_mtime_ns for path in settings.artifacts.rglob("*")}
    for role in ("target", "draft"):
        for kind in ("weights", "tables"):
            expected, found = getattr(first[role], kind), getattr(second[role], kind)
            assert expected.keys() == found.keys()
            for name, array in expected.items():
                np.testing.assert_array_equal(array, found[name])


def test_the_weights_come_from_the_shards_not_from_the_model(settings: ServeSettings) -> None:
    compiled(settings)
    shard = settings.artifacts / "weights" / "tp3_sharded_checkpoint.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x7f")
    changed, _ = compiled(settings)
    unchanged, _ = compiled(replace(settings, artifacts=None))
    assert any((changed[r].weights[n] != a).any() for r in changed for n, a in unchanged[r].weights.items())


def test_without_a_sharded_checkpoint_the_weights_are_packed_at_each_start(settings: ServeSettings) -> None:
    unsharded = replace(settings, neuron_config={})
    compiled(unsharded)
    assert sorted(path.name for path in unsharded.artifacts.iterdir()) == ["model.pt", "neuron_config.json"]
    assert "loaded" in compiled(unsharded)[1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tensor_parallel_size": 4}, "tensor_parallel_size is 5 there and 4 here"),
        ({"max_num_seqs": 2}, "max_num_seqs is 4 there and 2 here"),
        ({"neuron_config": {}}, "override_neuron_config"),
        ({"speculative": None}, "num_speculative_tokens is 5 there and 0 here"),
        ({"max_model_len": 256}, "max_model_len is 512 there and 256 here"),
    ],
)
def test_a_folder_made_for_other_settings_is_refused(
    settings: ServeSettings, change: dict[str, Any], named: str
) -> None:
    load_engine(settings)
    with pytest.raises(EngineSettingsError, match="compiled for other settings") as refusal:
        load_engine(replace(settings, **change))
    assert named in str(refusal.value)


def test_a_folder_made_for_other_weights_is_refused(settings: ServeSettings, random_draft: Path) -> None:
    load_engine(settings)
    with pytest.raises(EngineSettingsError, match="models is"):
        load_engine(replace(settings, speculative=replace(settings.speculative, model=random_draft)))


def test_a_read_only_folder_is_served_from_but_not_compiled_into(settings: ServeSettings) -> None:
    settings.artifacts.mkdir()
    settings.artifacts.chmod(0o555)
    with pytest.raises(EngineSettingsError, match="cannot be compiled into: it is read-only"):
        load_engine(settings)
    settings.artifacts.chmod(0o755)
    load_engine(settings)
    settings.artifacts.chmod(0o555)
    assert "loaded" in load_engine(settings).summary
    settings.artifacts.chmod(0o755)


def test_a_folder_of_something_else_is_refused(settings: ServeSettings) -> None:
    settings.artifacts.mkdir()
    (settings.artifacts / "notes.txt").write_text("mine")
    with pytest.raises(EngineSettingsError, match=r"holds notes\.txt"):
        load_engine(settings)


@pytest.mark.parametrize("damage", ["model.pt", "weights/tp0_sharded_checkpoint.safetensors"])
def test_a_damaged_folder_is_refused(settings: ServeSettings, damage: str) -> None:
    load_engine(settings)
    (settings.artifacts / damage).write_bytes(b"\0" * 100)
    with pytest.raises(EngineSettingsError, match="is damaged"):
        load_engine(settings)
    (settings.artifacts / damage).unlink()
    with pytest.raises(EngineSettingsError, match="is damaged"):
        load_engine(settings)


def test_a_compilation_that_was_interrupted_is_done_again(settings: ServeSettings) -> None:
    load_engine(settings)
    (settings.artifacts / "neuron_config.json").unlink()
    assert "compiled into" in load_engine(settings).summary
    assert json.loads((settings.artifacts / "neuron_config.json").read_text())["num_speculative_tokens"] == 5


def another(model: Path, folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> Path:
    """The model with one of its documents changed."""
    for each in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / each).write_bytes((model / each).read_bytes())
    document = json.loads((folder / name).read_text())
    change(document)
    (folder / name).write_text(json.dumps(document))
    return folder


def test_a_draft_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    draft = another(DRAFT, tmp_path, "tokenizer.json", lambda document: document["model"]["merges"].reverse())
    with pytest.raises(EngineSettingsError, match="different tokenizers"):
        load_engine(speculating(5, draft=draft))


def test_a_model_with_other_tokens_than_its_tokenizer_is_refused(tmp_path: Path) -> None:
    model = another(TARGET, tmp_path, "config.json", lambda document: document.update(vocab_size=700))
    with pytest.raises(EngineSettingsError, match="700 embeddings for the 768 tokens"):
        load_engine(replace(speculating(5), model=model))


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineSettingsError, match=r"lacks config\.json, model\.safetensors, tokenizer\.json"):
        load_engine(speculating(5, model=tmp_path))
