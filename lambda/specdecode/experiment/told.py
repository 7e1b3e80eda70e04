"""Figures of an experiment that were told before it ran: published ones, and its forecast."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator

from specdecode.experiment.base import MOST_DRAFTED, Frozen, Name, Prose

MOST_FORECAST = 400
"""Most drafts times types of prompts."""


Figure = Literal[
    "acceptance_rate",
    "end_to_end_latency",
    "output_throughput",
    "request_output_throughput",
    "time_per_output_token",
    "ttft",
]
"""Metrics of specdecode.measures.metrics that somebody published. Seconds, tokens per second, shares of 1."""
Statistic = Literal["all", "mean", "min", "p25", "p50", "p75", "p90", "p95", "p99", "max"]
"""Of the requests; `all`: one figure of all of them together."""
Positive = Annotated[float, Field(gt=0)]


class Published(Frozen):
    """Figures that somebody published for two arms. The report says of each whether it is reproduced."""

    by: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """Who published it, as `AWS`."""
    base: Name
    variant: Name
    figures: dict[Name, dict[Figure, dict[Statistic, tuple[Positive, Positive]]]] = Field(min_length=1)
    """`prompt type: {metric: {statistic: [base, variant]}}`, the type whose figure is nearest to what was published."""
    relative: bool = False
    """Only the change was published: the base's figures are 1."""
    model: Annotated[str, StringConstraints(max_length=128)] | None = None
    """Target of the published run, as the hub names it; this and the next ones are None if the source does not say."""
    draft: Annotated[str, StringConstraints(max_length=128)] | None = None
    num_speculative_tokens: int | None = Field(default=None, ge=1)
    engine: Annotated[str, StringConstraints(max_length=128)] | None = None
    """Name of its file in assets/engines, or words for an engine that has none."""
    tensor_parallel_size: int | None = Field(default=None, ge=1)
    concurrency: int | None = Field(default=None, ge=1)
    """Requests at a time."""
    temperature: float | None = Field(default=None, ge=0)
    input_tokens: int | None = Field(default=None, ge=1)
    """Of a prompt. It is compared where the run makes prompts of a length: kinds `line` and `sonnet`."""
    output_tokens: int | None = Field(default=None, ge=1)
    """Of an answer. The base's answers are compared with it."""
    conditions: Prose = ""
    """Further conditions of the published run: prompts, hardware, acceptance. They are shown, and not compared."""
    source: Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class Forecasted(Frozen):
    """Tokens per step of one draft on one type of prompts, as `specdecode forecast --write` told it from answers."""

    draft: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    """The draft's id."""
    case: Name
    """The type of prompts: a case of the experiment, or `all`."""
    prompts: int = Field(ge=1)
    at: tuple[tuple[int, float, float], ...] = Field(min_length=1, max_length=MOST_DRAFTED)
    """`[k, tokens per step, relative standard error]`."""

    @field_validator("at")
    @classmethod
    def _are_figures_of_steps(cls, at: tuple[tuple[int, float, float], ...]) -> tuple[tuple[int, float, float], ...]:
        if not all(k >= 1 and 1 <= tokens <= k + 1 and 0 <= error <= 1 for k, tokens, error in at):
            raise ValueError("each is [k, tokens per step from 1 to k + 1, relative standard error from 0 to 1]")
        return at


def without_absent_figures(document: Any) -> Any:
    """A document written out, without published rows of arms and prompt types that it does not have (a preset has)."""
    if not isinstance(document, dict) or not isinstance(rows := document.get("published"), list):
        return document
    arms, cases = _named_in(document, "variants"), _named_in(document.get("workload"), "cases")
    kept = [
        {**row, "figures": figures}
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("figures"), dict)
        if {str(row.get("base")), str(row.get("variant"))} <= arms
        and (figures := {case: each for case, each in row["figures"].items() if case in cases})
    ]
    return {**document, "published": kept}


def _named_in(of: Any, key: str) -> set[str]:
    items = of.get(key) if isinstance(of, dict) else None
    return {str(item.get("name")) for item in (items if isinstance(items, list) else ()) if isinstance(item, dict)}
