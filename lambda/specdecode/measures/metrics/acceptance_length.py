from specdecode.measures.metric import Direction, NoValue, RequestMetric, Unit
from specdecode.records import RequestRecord


class AcceptanceLength(RequestMetric):
    """Mean tokens of an answer's steps that had drafts to verify: the accepted drafts and the target model's own token.

    The server gives it for each answer (vLLM's `mean_acceptance_length`, `--per-request-spec-decode-metrics`). It is at
    most k + 1. On an engine that verifies k - 1 of k drafts it is at most k, and is taken from tokens per step.
    """

    tag = "acceptance_length"
    title = "Acceptance length"
    unit = Unit.TOKENS_PER_STEP
    direction = Direction.HIGHER
    formula = "1 + accepted tokens / drafts"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        if request.drafted is None:
            raise NoValue("the server does not say how the drafts of an answer fared")
        if not request.drafted.drafts:
            raise NoValue("nothing was drafted")
        return 1 + request.drafted.accepted_tokens / request.drafted.drafts
