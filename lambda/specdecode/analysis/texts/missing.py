"""Arms and cases that are missing in an answer: not measured, or with too many failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdecode.analysis.results.context import Failure, RunContext
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.statistics.verdict import MAX_FAILED
from specdecode.experiment.model import Experiment


def missing(experiment: Experiment, at: AtLevel, context: RunContext) -> Iterator[str]:
    """One short sentence for each arm, or arm and case, that is not in the answer. Arms that a sweep did not choose
    have none.
    """
    arms = at.arms
    causes = {failure.variant: failure.stage for failure in context.failures if failure.variant}
    for variant in experiment.variants:
        own = {case: each for (name, case), each in arms.items() if name == variant.name}
        if not own:
            if variant.name in causes:
                yield f"{variant.name} failed ({causes[variant.name]})"
            elif not context.sweep:
                yield f"{variant.name} was not measured"
            continue
        for case in experiment.workload.cases:
            if case.name not in own:
                yield f"{variant.name} was not measured in {case.name}"
            elif own[case.name].arm.failed > MAX_FAILED * own[case.name].arm.requests:
                arm = own[case.name].arm
                yield f"{arm.failed} of {arm.requests} requests of {variant.name} failed in {case.name}"


def failed_requests(levels: Sequence[AtLevel]) -> Iterator[Failure]:
    """Failures of requests, listed under "what failed" beside the run's own failures."""
    for at in levels:
        where = f" at {at.level}" if len(levels) > 1 else ""
        for (variant, case), each in at.arms.items():
            if each.arm.failed:
                kinds = ", ".join(f"{count} {kind}" for kind, count in each.arm.errors.items())
                failed = f"{each.arm.failed} of {each.arm.requests} requests of {variant} failed in {case}{where}"
                yield Failure(stage="benchmark", variant=variant, case=case, message=f"{failed}: {kinds}")
