"""A step of an arm: its most tokens, and the kind of engine that takes it, from the engine's file or the experiment."""

from specdecode.experiment.engine import Dialect, Engine
from specdecode.experiment.files import load_engine
from specdecode.experiment.model import Experiment
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.problems import ExperimentError
from specdecode.experiment.variants import Method, Variant

ASSUMED = MostTokens.K_PLUS_1
"""Assumed for an unknown engine: the same as vLLM's own, the higher limit."""


def most_tokens(experiment: Experiment, variant: Variant) -> MostTokens:
    """`most_tokens_said`, or ASSUMED if nothing says it."""
    return most_tokens_said(experiment, variant) or ASSUMED


def most_tokens_said(experiment: Experiment, variant: Variant) -> MostTokens | None:
    """The value of the arm, else of its engine's file. None for a server that already runs, or without such a file."""
    if variant.speculation and variant.speculation.most_tokens_per_step:
        return variant.speculation.most_tokens_per_step
    engine = _served_by(experiment)
    return engine.most_tokens_per_step if engine else None


def takes_own_k(experiment: Experiment, method: Method) -> bool:
    """Whether a head of the method takes the k alone that it was trained for (`MethodSupport.tokens`)."""
    engine = _served_by(experiment)
    support = engine.methods.get(method) if engine else None
    return bool(support and support.tokens)


def kind_of_engine(experiment: Experiment) -> str:
    """Engines of one kind have steps that cost alike: `nxd-inference`, `native`, an engine's name (CPU), `server`."""
    if experiment.served_by is None:
        return "server"
    if (engine := _served_by(experiment)) is None:
        return experiment.served_by
    if not engine.on_neuron:
        return engine.name
    return "native" if engine.dialect is Dialect.NATIVE_PLUGIN else "nxd-inference"


def _served_by(experiment: Experiment) -> Engine | None:
    try:
        return load_engine(experiment.served_by) if experiment.served_by else None
    except ExperimentError:
        return None
