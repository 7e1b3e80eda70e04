"""The configuration of a model (config.json), and the settings with which it is served."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rehearsal.engine.errors import EngineSettingsError

ARCHITECTURE = "NgramEmbeddingDecoder"


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Shape of a decoder with n-gram input embeddings. Names are those of Hugging Face's config.json, if it has
    them.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    head_dim: int
    intermediate_size: int
    ngram_embeddings: int
    """Number of embedding tables: one for the token itself, and one for each of the tokens before it that count."""
    max_position_embeddings: int
    rope_theta: float
    rms_norm_eps: float
    bos_token_id: int
    eos_token_id: int

    @property
    def heads(self) -> int:
        return self.hidden_size // self.head_dim


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A folder with config.json, model.safetensors and tokenizer.json."""

    path: Path
    config: ModelConfig

    @property
    def weights(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def tokenizer(self) -> Path:
        return self.path / "tokenizer.json"

    def sha256(self) -> str:
        """Hash of configuration and weights. It identifies the model at any path."""
        digest = hashlib.sha256(json.dumps(asdict(self.config), sort_keys=True).encode())
        digest.update(self.weights.read_bytes())
        return digest.hexdigest()


def read_model_folder(path: Path) -> ModelFolder:
    """Check that `path` is a model that this engine can run, and read its configuration."""
    missing = [name for name in ("config.json", "model.safetensors", "tokenizer.json") if not (path / name).is_file()]
    if missing:
        raise EngineSettingsError(f"{path} is no model folder: it lacks {', '.join(missing)}")
    try:
        document = json.loads((path / "config.json").read_text())
    except ValueError as error:
        raise EngineSettingsError(f"{path}/config.json is no JSON: {error}") from error
    if ARCHITECTURE not in document.get("architectures", []):
        raise EngineSettingsError(
            f"{path}/config.json names the architectures {document.get('architectures')}; "
            f"this engine runs {ARCHITECTURE} only"
        )
    names = [field.name for field in fields(ModelConfig)]
    absent = [name for name in names if name not in document]
    if absent:
        raise EngineSettingsError(f"{path}/config.json lacks {', '.join(absent)}")
    return ModelFolder(path=path, config=ModelConfig(**{name: document[name] for name in names}))


@dataclass(frozen=True, kw_only=True)
class Speculative:
    """What `--speculative-config` asks for: the draft model and its k."""

    model: Path
    num_speculative_tokens: int
    max_model_len: int | None = None
    """Longest sequence for which the draft model is used. None: the target's longest."""
    method: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The settings from the command line and the environment of `vllm serve`."""

    model: Path
    served_model_name: str
    host: str
    port: int
    tensor_parallel_size: int
    max_num_seqs: int
    max_model_len: int | None
    neuron_config: dict[str, Any]
    speculative: Speculative | None
    api_key: str | None
    verifies_all: bool = True
    """False: k - 1 of k drafts are verified, as in NxD Inference's fused speculation."""
    tells_drafts: bool = False
    """The usage chunk of an answer counts its drafts (--per-request-spec-decode-metrics summary)."""
    artifacts: Path | None
    """NEURON_COMPILED_ARTIFACTS. None: compile in memory."""
    compiles_for: str | None = None
    """NEURON_PLATFORM_TARGET_OVERRIDE: the engine compiles for that platform and then ends before it loads, as NxD
    Inference does on a machine without Neuron devices. None: it serves.
    """
