"""Tokens of prompts and answers."""

from specdecode.measures.metric import Direction, NoValue, RequestMetric, Unit, output_tokens
from specdecode.records import RequestRecord


class InputTokens(RequestMetric):
    """Tokens of the prompt with its chat template, by the server's count."""

    tag = "input_tokens"
    title = "Input tokens"
    unit = Unit.TOKENS
    direction = Direction.NONE
    formula = "usage.prompt_tokens"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        if request.prompt_tokens is None:
            raise NoValue(request.usage_problem or "no token count")
        return request.prompt_tokens


class OutputTokens(RequestMetric):
    """Tokens of the answer, by the server's count. Speed-ups are a fair comparison only if the arms agree in it."""

    tag = "output_tokens"
    title = "Output tokens"
    unit = Unit.TOKENS
    direction = Direction.NONE
    formula = "usage.completion_tokens"

    @classmethod
    def value(cls, request: RequestRecord) -> float:
        return output_tokens(request)
