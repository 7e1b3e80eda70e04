"""Most tokens of a step of an arm: from its engine's file, or from the experiment for a server that already runs."""

from __future__ import annotations

from specdecode.experiment.files import load_engine
from specdecode.experiment.model import Experiment, Variant
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.problems import ExperimentError

ASSUMED = MostTokens.K_PLUS_1
"""Assumed for an unknown engine: the same as vLLM's own, the higher limit."""


def most_tokens(experiment: Experiment, variant: Variant) -> MostTokens:
    """`most_tokens_said`, or ASSUMED if nothing says it."""
    return most_tokens_said(experiment, variant) or ASSUMED


def most_tokens_said(experiment: Experiment, variant: Variant) -> MostTokens | None:
    """The value of the arm, else of its engine's file. None for a server that already runs, or an engine without a file
    (of an import, or of another version).
    """
    if variant.speculation and variant.speculation.most_tokens_per_step:
        return variant.speculation.most_tokens_per_step
    if experiment.served_by is None:
        return None
    try:
        return load_engine(experiment.served_by).most_tokens_per_step
    except ExperimentError:
        return None
