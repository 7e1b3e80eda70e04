"""What a step of an arm can yield: as its engine's file says, or as is said of a server that already runs."""

from __future__ import annotations

from specdecode.experiment.errors import ExperimentError
from specdecode.experiment.loading import load_engine
from specdecode.experiment.model import Experiment, Variant
from specdecode.experiment.most_tokens import MostTokens

ASSUMED = MostTokens.K_PLUS_1
"""Of an engine that nobody named: as vLLM's own, and the more generous ceiling."""


def most_tokens(experiment: Experiment, variant: Variant) -> MostTokens:
    """The property of the engine that `variant` runs on; ASSUMED where nothing says it."""
    return most_tokens_said(experiment, variant) or ASSUMED


def most_tokens_said(experiment: Experiment, variant: Variant) -> MostTokens | None:
    """As the arm says, else the file of its engine. None: a server that already runs, or an engine without a file (of
    an import, or one that this version has no more).
    """
    if variant.speculation and variant.speculation.most_tokens_per_step:
        return variant.speculation.most_tokens_per_step
    if experiment.served_by is None:
        return None
    try:
        return load_engine(experiment.served_by).most_tokens_per_step
    except ExperimentError:
        return None
