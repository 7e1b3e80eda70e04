"""What an arm's server was really compiled with, held against what we assumed: neuron_config.json of its artifact.

NxD Inference writes that file with every setting that the model has (`InferenceConfig.save`, NxD Inference 0.6.10598).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from specdecode import s3_keys
from specdecode.experiment.effective import effective
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.variants import ServedVariant
from specdecode.steps.run import Run
from specdecode.store import Store
from specdecode.untrusted import parse_json

FILE = "neuron_config.json"
MOST = 20
"""Most differences of an arm that are told."""


def differences(run: Run, store: Store) -> Iterator[str]:
    """A sentence for each arm whose artifact differs from what was assumed. Keeps the file in the run's folder."""
    experiment, engine = run.plan.served, run.plan.engine
    arms = {arm.variant: arm for wave in run.plan.waves for arm in run.wave(wave.index).arms}
    for variant in experiment.variants:
        arm = arms.get(variant.name)
        data = store.read(s3_keys.compiled_prefix(arm.fingerprint) + FILE) if arm and engine.artifact else None
        if data is None:
            continue
        store.write(s3_keys.run_key(run.state.run_id, "used", f"{variant.name}.json"), data)
        try:
            document = parse_json(data)
        except ValueError as error:
            yield f"{variant.name}: {FILE} of its artifact cannot be read: {error}"
            continue
        used = document.get("neuron_config") if isinstance(document, Mapping) else None
        if not isinstance(used, Mapping):
            continue
        found = sorted(set(unlike(assumed(experiment, variant, engine), used)))
        if found:
            more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
            yield f"{variant.name} was compiled otherwise than assumed: {'; '.join(found[:MOST])}{more}"


def assumed(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> dict[str, Any]:
    """The settings of an arm by NxD Inference's names: ours over the defaults that its engine's file says."""
    shape = {
        "tp_degree": experiment.serving.tensor_parallel_size,
        "batch_size": experiment.serving.max_num_seqs,
        "seq_len": experiment.serving.max_model_len,
        "speculation_length": variant.speculation.num_speculative_tokens if variant.speculation else 0,
    }
    return shape | effective(experiment, variant, engine)


def unlike(ours: Mapping[str, Any], used: Mapping[str, Any], below: str = "") -> Iterator[str]:
    """What differs, of the settings that both have. What the file lacks may have another name there."""
    for key in sorted(ours.keys() & used.keys()):
        here, there = ours[key], used[key]
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            yield from unlike(here, there, f"{below}{key}.")
        elif here != there:
            yield f"{below}{key} is {json.dumps(there)[:100]}, assumed {json.dumps(here)[:100]}"
