"""Errors that end a step. The state machine's Retry and Catch see the class name, and so does the user.

None is retried: another try cannot help. LookAgain alone ends no step. Any other error (the API server does not
answer, S3 throttles, the function was killed) is retried with backoff.

Why it is so: ADR 55.
"""

from collections.abc import Collection

from specdecode.escape import clip, line, plain

LONGEST = 20_000
"""Characters of a message: Step Functions takes 32,768 as the cause of a failed execution."""


LONGEST_LINE = 2_000
"""Characters of a line of progress."""


class LookAgain(Exception):
    """No failure: the step is not done yet. The message is its line of progress, which the history shows."""

    def __init__(self, message: str) -> None:
        super().__init__(clip(line(message), LONGEST_LINE))


class LookAgainIn15s(LookAgain):
    """Not done, and it may be at any moment."""


class LookAgainIn60s(LookAgain):
    """Not done, and looks every 15 s would be more than a history holds."""


class LookAgainIn300s(LookAgain):
    """Not done, and nothing but time helps: the run stands in a queue."""


LOOK_AGAIN = (LookAgainIn15s, LookAgainIn60s, LookAgainIn300s)
"""One for each of INTERVALS_S."""


class StepFailed(Exception):
    """An error that ends a run, told to the user. `exit_codes`: with what the containers ended that made it fail."""

    def __init__(self, message: str, *, exit_codes: Collection[int | None] = ()) -> None:
        super().__init__(clip(plain(message), LONGEST))
        self.exit_codes = exit_codes


class InvalidExperiment(StepFailed):
    """The input names no valid experiment, or one that cannot run here."""


class NobodyTold(StepFailed):
    """No one has confirmed an address for alerts, and no setting says that none is needed."""


class StagingFailed(StepFailed):
    """A model did not reach the bucket."""


class PromptsRefused(StepFailed):
    """Prompts that cannot be measured. It is found after the sets and the model's tokenizer were fetched."""


class AccessRefused(StepFailed):
    """AWS gives a step no session for its pods."""


class CapacityUnavailable(StepFailed):
    """No node: no capacity, quota or reservation, or the queue did not move in time."""


class LeaseLost(StepFailed):
    """The run no longer holds the node (stopped, released by hand, or taken by the watchdog)."""


class NodeLost(StepFailed):
    """The node went away under the run."""


class StartCheckFailed(StepFailed):
    """An engine did not start with a tiny model, before anything was compiled."""


class CompileFailed(StepFailed):
    """A model did not compile."""


class ArtifactRefused(StepFailed):
    """An arm does not start from an artifact of a CPU node. It is compiled on the node, and the run goes on."""


class DamagedFolder(StepFailed):
    """An artifact or a model is not what was stored. Nothing was measured with it, and the next run makes it anew."""


class ServeNotReady(StepFailed):
    """An arm did not become ready."""


class SmokeFailed(StepFailed):
    """A ready arm did not answer its first request."""


class BenchmarkFailed(StepFailed):
    """The benchmark Job failed, or an arm died under load."""


class AccuracyFailed(StepFailed):
    """The accuracy test failed: the run goes on without it."""


class HoldFailed(StepFailed):
    """The arms could not be kept for questions: the run goes on without it."""


class TeardownStuck(StepFailed):
    """Workloads were deleted and are still there."""


class ReportFailed(StepFailed):
    """The measurements do not make a report."""
