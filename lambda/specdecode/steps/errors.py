"""Errors that end a step. The class name is what the state machine's Retry and Catch see, and what a user reads.

None of these is retried: the step has looked, and trying again cannot help. Anything else (the API server is away,
S3 throttles, the function was killed) is retried with backoff.

Why it is so: ADR 55.
"""

from __future__ import annotations

from specdecode.escape import clip, plain
from specdecode.kubernetes.errors import InvalidManifest, QuotaExceeded
from specdecode.runs.lease_store import LeaseDamaged
from specdecode.runs.state import StateDamaged

LONGEST = 20_000
"""Characters of a message: Step Functions takes 32,768 as the cause of a failed execution."""


class StepFailed(Exception):
    """Base of the errors that a step ends a run with; the message is for people."""

    def __init__(self, message: str) -> None:
        super().__init__(clip(plain(message), LONGEST))


class InvalidExperiment(StepFailed):
    """The input names no valid experiment, or one that cannot run here."""


class NobodyTold(StepFailed):
    """No one has confirmed to be told of a node that stays, and no setting says that nobody need be."""


class StagingFailed(StepFailed):
    """A model did not reach the bucket."""


class PromptsRefused(StepFailed):
    """Prompts that cannot be measured, found when sets were fetched and the model's tokenizer was there."""


class AccessRefused(StepFailed):
    """AWS gives a step no session for its pods."""


class CapacityUnavailable(StepFailed):
    """No node: no capacity, quota or reservation, or the queue did not move in time."""


class LeaseLost(StepFailed):
    """The run no longer holds the node (stopped, released by hand, or taken by the watchdog)."""


class NodeLost(StepFailed):
    """The node went away under the run."""


class CompileFailed(StepFailed):
    """A model did not compile."""


class ArtifactRefused(StepFailed):
    """An arm does not start from what a CPU node compiled: it is compiled on the node, and the run goes on."""


class ServeNotReady(StepFailed):
    """An arm did not become ready."""


class SmokeFailed(StepFailed):
    """A ready arm did not answer its first request."""


class BenchmarkFailed(StepFailed):
    """The benchmark Job failed, or an arm died under load."""


class AccuracyFailed(StepFailed):
    """The accuracy test failed: the run goes on without it."""


class TeardownStuck(StepFailed):
    """Workloads did not go away."""


class UnitFailed(StepFailed):
    """A part of a run on several nodes failed; the others were measured, and the report has them."""


class ReportFailed(StepFailed):
    """The measurements do not make a report."""


FINAL = sorted(
    error.__name__
    for error in (*StepFailed.__subclasses__(), InvalidManifest, QuotaExceeded, LeaseDamaged, StateDamaged)
)
"""Names for the state machine's Retry: never again."""
