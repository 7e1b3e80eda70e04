"""The start check: which arms' engines start once with a tiny model before anything is compiled, and with which.

Why it is so: ADR 198.
"""

from __future__ import annotations

from collections.abc import Collection

from specdecode import s3_keys
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import Experiment, Method, ServedExperiment, ServedVariant

TINY_LAYERS = 2
UNDER_A_HEAD = 8
"""Layers of a tiny target. A head listens to three of its layers, which must differ: vLLM takes 2, n / 2 and n - 3
(`get_eagle3_aux_hidden_state_layers` of its models), and a DFlash head to five or more.
"""
HEADS = frozenset({Method.EAGLE, Method.EAGLE3, Method.DFLASH, Method.MEDUSA})


def has_head(variant: ServedVariant) -> bool:
    """Whether the arm speculates with a head of its target."""
    return variant.speculation is not None and variant.speculation.method in HEADS


def layers(variant: ServedVariant) -> int:
    """Layers of the arm's tiny target, and of its draft model."""
    return UNDER_A_HEAD if has_head(variant) else TINY_LAYERS


def served_key(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> str:
    """Key of the mark that this kind of arm was served from this bucket: image, node, family, weights and method. Arms
    that differ in k, in a draft or in a setting are one kind.
    """
    family = experiment.target_of(variant).family or ""
    method = variant.speculation.method if variant.speculation else "plain"
    return s3_keys.served_key(engine.reference, experiment.node, family, variant.quantization, method)


def first_of_each_kind(experiment: ServedExperiment, engine: Engine) -> dict[str, ServedVariant]:
    """`served_key` -> the first arm of that kind."""
    found: dict[str, ServedVariant] = {}
    for variant in experiment.variants:
        found.setdefault(served_key(experiment, variant, engine), variant)
    return found


def groups(checked: tuple[str, ...], *, size: int) -> list[tuple[str, ...]]:
    """The arms `checked`, those that fit on the node together in one group."""
    return [checked[at : at + size] for at in range(0, len(checked), size)]


def to_check(experiment: Experiment, engine: Engine, known: Collection[str]) -> tuple[str, ...]:
    """The arms to check: the first of each kind, unless its key is `known`. Empty if the experiment wants no check."""
    if not isinstance(experiment, ServedExperiment) or not experiment.start_check:
        return ()
    kinds = first_of_each_kind(experiment, engine)
    return tuple(variant.name for key, variant in kinds.items() if key not in known)
