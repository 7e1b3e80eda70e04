"""Arms that a run does not measure, since an earlier run has their answers (ADR 212)."""

from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.experiment.variants import Variant


def answers_of(experiment: Experiment) -> str | None:
    """The run that has the answers which the experiment's drafts read. None if they are written in the run itself."""
    return experiment.answers if isinstance(experiment, ServedExperiment) else None


def answered(experiment: Experiment) -> tuple[Variant, ...]:
    """The arms whose answers that run has."""
    read = {variant.reads for variant in experiment.readers} if answers_of(experiment) else ()
    return tuple(variant for variant in experiment.variants if variant.name in read)


def arms_measured(experiment: Experiment) -> tuple[Variant, ...]:
    """The arms of a report that its run measures."""
    return () if answers_of(experiment) else experiment.variants
