"""Warnings about room on the node: fewer arms share it than it has devices for, or arms are kept apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specdecode.experiment.engine import Dialect, Engine
from specdecode.experiment.model import Experiment, ServedExperiment, Sweep
from specdecode.experiment.shapes import CORES_PER_DEVICE
from specdecode.experiment.sizing import arms_at_once, lacking, room_of, serving_needs
from specdecode.planning.waves import Wave


def check_room(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Warn if something else than the devices limits how many arms are on the node at once."""
    most, arms = min(experiment.side_by_side, len(experiment.variants)), arms_at_once(experiment, engine)
    if arms == most:
        return []
    unit, need, there = lacking(room_of(experiment.shape), serving_needs(experiment, engine, arms + 1))[0]
    return [
        f"{_many(arms)} at a time, though there are devices for {most}: {arms + 1} need {need:.0f} {unit}, and a "
        f"{experiment.node} has {there:.0f} to give; lower the engine's pod resources, or choose smaller models"
    ]


def check_claim(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Warn if a smaller claim would hold the arms: the native plugin uses as many cores as it has ranks."""
    serving = experiment.serving
    if engine.dialect is not Dialect.NATIVE_PLUGIN:
        return []
    used = math.ceil(serving.tensor_parallel_size * serving.logical_neuron_core / CORES_PER_DEVICE)
    enough = min((claim for claim in experiment.shape.claims if claim >= used), default=serving.devices)
    if enough >= serving.devices:
        return []
    return [
        f"TP {serving.tensor_parallel_size} takes {used} of the {serving.devices} devices that an arm claims, and each "
        f"token is priced at all of them: serving.devices={enough} is enough, and more arms share the node"
    ]


def check_precision(experiment: Experiment, waves: Sequence[Wave]) -> list[str]:
    """Warn if a speed-up cannot be settled while it is measured: both arms must be served at the same time."""
    if experiment.workload.requests.precision is None:
        return []
    most = experiment.workload.requests.max
    if max(len(wave.arms) for wave in waves) == 1:
        return [f"workload.requests: no two arms are on the node together, so that none ends early: each sends {most}"]
    against = {variant.name: variant.compare_to for variant in experiment.variants}
    served, alone = set[str](), list[str]()
    for names in ([arm.variant for arm in wave.arms] for wave in waves):
        if not any(against[name] in names for name in names):
            alone += [name for name in names if name not in served]
        served.update(names)
    if not alone:
        return []
    text = "no arm of its comparison is beside it in its first wave, so it cannot end early there and sends"
    return [f"workload.requests: {', '.join(alone)}: {text} {most}"]


def apart(experiment: Experiment, waves: Sequence[Wave]) -> tuple[str, ...]:
    """Variants that are in no wave together with the arm that they are compared with, although arms share the node."""
    together = [{arm.variant for arm in wave.arms} for wave in waves]
    if experiment.sweep is Sweep.ADAPTIVE or max(map(len, together), default=1) == 1:
        return ()
    return tuple(
        v.name for v in experiment.variants if v.compare_to and not any({v.name, v.compare_to} <= w for w in together)
    )


def _many(arms: int) -> str:
    return f"{arms} arm{'s' if arms > 1 else ''}"
