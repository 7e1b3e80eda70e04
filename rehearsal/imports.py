"""Upload the embedded models to the bucket's imports/, as a user does with a model of his own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdecode.experiment import Experiment, engine_of
from specdecode.experiment.variants import ModelRef

from rehearsal import tools

WEIGHTS = (tools.ROOT / "rehearsal" / "engine" / "weights", tools.LLAMA)
"""Folders of model folders."""


def models(experiment: Experiment) -> Iterator[ModelRef]:
    """Every model of an experiment, each once: target, overriding targets, drafts."""
    seen = set()
    for variant in experiment.variants:
        draft = [variant.speculation.draft] if variant.speculation else []
        for model in [variant.target or experiment.target, *draft]:
            if model not in seen:
                seen.add(model)
                yield model


def check(experiment: Experiment) -> None:
    """Raise tools.Unusable if the experiment needs models that this repository does not have. The message has a line
    for each.
    """
    image = engine_of(experiment).image
    if image in tools.IMAGES and not (tools.IMAGES[image] / ".models").exists():
        raise tools.Unusable(f"'{experiment.name}' needs vLLM, which is not installed yet: make rehearse ENGINE=vllm")
    missing = [model.id for model in models(experiment) if not (_folder(model) / "config.json").is_file()]
    if missing:
        raise tools.Unusable(
            f"'{experiment.name}' cannot be rehearsed on this machine: it needs {', '.join(missing)}.\n"
            f"Deploy (make deploy) and start it there: .venv/bin/specdecode run {experiment.name}"
        )


def upload(experiment: Experiment, *, s3: Any, bucket: str) -> int:
    """Upload the models that the experiment imports. Returns the number of bytes."""
    total = 0
    for model in models(experiment):
        for path in sorted(p for p in _folder(model).iterdir() if p.is_file()):
            s3.upload_file(str(path), bucket, f"{model.import_prefix}{path.name}")
            total += path.stat().st_size
    return total


def _folder(model: ModelRef) -> Path:
    name = Path(model.import_prefix or "none").name
    return next((folder / name for folder in WEIGHTS if (folder / name).is_dir()), WEIGHTS[0] / name)
