"""The compiled artifacts that waves serve, and the artifacts that are missing in the bucket."""

from __future__ import annotations

from specdecode import s3_keys
from specdecode.experiment.engine import Engine
from specdecode.planning.inventory import Inventory
from specdecode.planning.plan import PlannedArtifact
from specdecode.planning.waves import Arm, Wave


def artifacts_of(engine: Engine, waves: tuple[Wave, ...], inventory: Inventory) -> tuple[PlannedArtifact, ...]:
    """The artifacts of `waves`, each once, with its first arm. Empty if the engine compiles nothing."""
    first: dict[str, Arm] = {}
    for arm in (arm for wave in waves if engine.artifact for arm in wave.arms):
        first.setdefault(arm.fingerprint, arm)
    return tuple(
        PlannedArtifact(
            fingerprint=arm.fingerprint,
            prefix=s3_keys.compiled_prefix(arm.fingerprint),
            arm=arm,
            compiled=inventory.has(s3_keys.compiled_prefix(arm.fingerprint)),
        )
        for arm in first.values()
    )


def missing_artifacts(engine: Engine, waves: tuple[Wave, ...], inventory: Inventory) -> dict[str, str]:
    """Fingerprints of the artifacts that are not in the bucket, each with one of its arms."""
    return {
        arm.fingerprint: arm.variant
        for wave in waves
        for arm in wave.arms
        if engine.artifact and not inventory.has(s3_keys.compiled_prefix(arm.fingerprint))
    }
