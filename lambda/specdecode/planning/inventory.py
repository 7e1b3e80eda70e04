"""What already lies in the bucket: folders, which count only with their COMPLETE.json, and marks of what was served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from specdecode import s3_keys
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import CompileOn, Experiment, Frozen, ServedExperiment
from specdecode.planning.fingerprint import fingerprint
from specdecode.planning.start_check import first_of_each_kind


class Inventory(Frozen):
    """Finished folders, as prefixes (`models/…/`, `compiled/…/`), and the keys of marks (`state/engines/….json`)."""

    prefixes: frozenset[str] = frozenset()

    @classmethod
    def from_keys(cls, keys: Iterable[str]) -> Self:
        """From the keys of a listing."""
        ends, marks = "/" + s3_keys.COMPLETE, s3_keys.ENGINES
        counts = (key for key in keys if key.endswith(ends) or key.startswith(marks))
        return cls(prefixes=frozenset(key.removesuffix(s3_keys.COMPLETE) for key in counts))

    def has(self, prefix: str) -> bool:
        return prefix in self.prefixes


def needed_prefixes(experiment: Experiment, engine: Engine) -> list[str]:
    """Prefixes of all models and artifacts that `experiment` needs, in the order of first use, and the keys of its
    kinds of arms.
    """
    if not isinstance(experiment, ServedExperiment):
        return []
    models = [model.prefix for model in experiment.staged]
    compiled = experiment.variants if engine.artifact else ()
    ways = (False, True) if experiment.compile.on is CompileOn.CPU else (False,)
    artifacts = [
        s3_keys.compiled_prefix(fingerprint(experiment, variant, engine, without_devices=way))
        for variant in compiled
        for way in ways
    ]
    return list(dict.fromkeys([*models, *artifacts, *first_of_each_kind(experiment, engine)]))


def compiled_arms(experiment: ServedExperiment, engine: Engine, inventory: Inventory) -> frozenset[str]:
    """Arms that need no compile."""
    return frozenset(
        variant.name
        for variant in experiment.variants
        if inventory.has(s3_keys.compiled_prefix(fingerprint(experiment, variant, engine)))
    )


def read_inventory(s3: Any, *, bucket: str, prefixes: Iterable[str]) -> Inventory:
    """Which of `prefixes` are complete in `bucket`; `s3` is a boto3 client. One listing of one key for each."""
    keys = []
    for prefix in prefixes:
        key = prefix + s3_keys.COMPLETE if prefix.endswith("/") else prefix
        listing = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        keys += [item["Key"] for item in listing.get("Contents", ())]
    return Inventory.from_keys(keys)
