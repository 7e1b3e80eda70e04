"""The compiled folder (NEURON_COMPILED_ARTIFACTS): written once for given settings, refused for any others.

The files have the names that NxD Inference gives them: `neuron_config.json` (here: the settings it was made for),
`model.pt` (the tables that depend on the served window; a safetensors file) and, with `save_sharded_checkpoint`,
`weights/tp<rank>_sharded_checkpoint.safetensors` (the packed weights in as many pieces as ranks). Without the sharded
checkpoint the weights are packed again from the model folder at every start, as NxD Inference does.
"""

import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rehearsal.engine.config import ModelFolder, ServeSettings
from rehearsal.engine.errors import EngineSettingsError
from rehearsal.engine.packing import Arrays, pack_weights, plan_tables, shard, unshard

FORMAT = 1
MANIFEST = "neuron_config.json"
PARTIAL_MANIFEST = f"{MANIFEST}.partial"
TABLES = "model.pt"
WEIGHTS = "weights"


@dataclass(frozen=True, kw_only=True)
class CompiledArrays:
    """Arrays that the forward pass of one model needs."""

    weights: Arrays
    tables: Arrays


def compile_settings(settings: ServeSettings, *, folders: dict[str, ModelFolder], window: int) -> dict[str, Any]:
    """Exactly the settings that decide the compiled folder. `folders`: role (`target`, `draft`) -> model."""
    speculative = settings.speculative
    return {
        "format": FORMAT,
        "tensor_parallel_size": settings.tensor_parallel_size,
        "max_num_seqs": settings.max_num_seqs,
        "max_model_len": window,
        "override_neuron_config": settings.neuron_config,
        "num_speculative_tokens": speculative.num_speculative_tokens if speculative else 0,
        "verifies_all": settings.verifies_all,
        "draft_max_model_len": speculative.max_model_len if speculative else None,
        "models": {role: folder.sha256() for role, folder in folders.items()},
    }


def load_or_compile(
    path: Path | None, *, made_for: dict[str, Any], folders: dict[str, ModelFolder]
) -> tuple[dict[str, CompiledArrays], str]:
    """The compiled models by role, and a line for the log: where they came from.

    Raises EngineSettingsError if `path` was made for other settings or has foreign files, or if it is empty and cannot
    be written.
    """
    if path is None:
        return _compile(made_for, folders), "compiled in memory (NEURON_COMPILED_ARTIFACTS is not set)"
    if (path / MANIFEST).is_file():
        _refuse_other_settings(path, made_for)
        return _load(path, made_for, folders), f"loaded compiled artifacts from {path}"
    names = {item.name for item in path.iterdir()} if path.is_dir() else set()
    foreign = sorted(names - {TABLES, WEIGHTS, PARTIAL_MANIFEST})
    if foreign:
        raise EngineSettingsError(f"{path} has no {MANIFEST} but holds {', '.join(foreign[:5])}: give an empty folder")
    compiled = _compile(made_for, folders)
    try:
        _save(path, compiled, made_for)
    except OSError as error:
        raise EngineSettingsError(f"{path} has no compiled artifacts and cannot be compiled into: {error}") from error
    return compiled, f"compiled into {path}"


def _compile(made_for: dict[str, Any], folders: dict[str, ModelFolder]) -> dict[str, CompiledArrays]:
    positions = made_for["max_model_len"]
    return {
        role: CompiledArrays(weights=pack_weights(folder), tables=plan_tables(folder.config, positions=positions))
        for role, folder in folders.items()
    }


def _save(path: Path, compiled: dict[str, CompiledArrays], made_for: dict[str, Any]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK) or not path.stat().st_mode & stat.S_IWUSR:  # the mode: root may write anywhere
        raise PermissionError("it is read-only")
    _write(path / TABLES, _prefixed({role: item.tables for role, item in compiled.items()}))
    if made_for["override_neuron_config"].get("save_sharded_checkpoint"):
        ranks = made_for["tensor_parallel_size"]
        packed = _prefixed({role: item.weights for role, item in compiled.items()})
        (path / WEIGHTS).mkdir(exist_ok=True)
        for rank, piece in enumerate(shard(packed, ranks=ranks)):
            _write(_shard_path(path, rank), piece)
    manifest = path / PARTIAL_MANIFEST
    manifest.write_text(json.dumps(made_for, indent=2, sort_keys=True) + "\n")
    manifest.rename(path / MANIFEST)


def _load(path: Path, made_for: dict[str, Any], folders: dict[str, ModelFolder]) -> dict[str, CompiledArrays]:
    try:
        tables = _by_role(load_file(path / TABLES), folders)
        if made_for["override_neuron_config"].get("save_sharded_checkpoint"):
            pieces = [load_file(_shard_path(path, rank)) for rank in range(made_for["tensor_parallel_size"])]
            weights = _by_role(unshard(pieces), folders)
        else:
            weights = {role: pack_weights(folder) for role, folder in folders.items()}
    except (OSError, SafetensorError) as error:
        raise EngineSettingsError(f"{path} is damaged ({error}): compile again into an empty folder") from error
    return {role: CompiledArrays(weights=weights[role], tables=tables[role]) for role in folders}


def _refuse_other_settings(path: Path, made_for: dict[str, Any]) -> None:
    try:
        found = json.loads((path / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise EngineSettingsError(f"{path / MANIFEST} cannot be read: {error}") from error
    differing = [
        f"{name} is {found.get(name)!r} there and {value!r} here"
        for name, value in made_for.items()
        if found.get(name) != value
    ]
    if differing:
        raise EngineSettingsError(
            f"{path} was compiled for other settings: {'; '.join(differing)}. "
            "Serve with the settings it was made for, or compile into an empty folder"
        )


def _write(path: Path, arrays: Arrays) -> None:
    save_file(arrays, path)


def _shard_path(path: Path, rank: int) -> Path:
    return path / WEIGHTS / f"tp{rank}_sharded_checkpoint.safetensors"


def _prefixed(by_role: dict[str, Arrays]) -> Arrays:
    return {f"{role}/{name}": array for role, arrays in by_role.items() for name, array in arrays.items()}


def _by_role(arrays: Arrays, roles: Iterable[str]) -> dict[str, Arrays]:
    return {
        role: {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith(f"{role}/")}
        for role in roles
    }
