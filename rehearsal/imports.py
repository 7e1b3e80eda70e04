"""The embedded models' weights go to the bucket's imports/, as a user brings an own model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specdecode.experiment import Experiment
from specdecode.experiment.model import ModelRef

from rehearsal import tools

WEIGHTS = tools.ROOT / "rehearsal" / "engine" / "weights"


def models(experiment: Experiment) -> Iterator[ModelRef]:
    """Every model of an experiment, each once: target, overriding targets, drafts."""
    seen = set()
    for variant in experiment.variants:
        draft = [variant.speculation.draft] if variant.speculation else []
        for model in [variant.target or experiment.target, *draft]:
            if model not in seen:
                seen.add(model)
                yield model


def upload(experiment: Experiment, *, s3: Any, bucket: str) -> int:
    """Upload what the experiment imports; the number of bytes.

    Raises tools.Unusable when it needs a model that this repository does not have.
    """
    missing, total = [], 0
    for model in models(experiment):
        prefix = model.import_prefix or ""
        folder = WEIGHTS / prefix.removeprefix("imports/").strip("/")
        if not prefix or not (folder / "config.json").is_file():
            missing.append(f"{model.id} is not a model of this repository: a rehearsal needs no network for its models")
            continue
        for path in sorted(p for p in folder.iterdir() if p.is_file()):
            s3.upload_file(str(path), bucket, f"{prefix}{path.name}")
            total += path.stat().st_size
    if missing:
        raise tools.Unusable("\n".join(missing))
    return total
