"""Values of the metrics of single requests, and why a metric has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specdecode.measures.metric import Block, Impossible, NoValue
from specdecode.measures.metrics import (
    REQUEST_METRICS,
    SAMPLE_METRICS,
    InterTokenLatency,
    TimePerOutputToken,
    TokensPerStep,
)
from specdecode.measures.metrics.tokens_per_step import mean_tokens_per_step
from specdecode.records import RequestRecord

Values = Mapping[str, Sequence[tuple[RequestRecord, float]]]
"""Tag of a request metric -> the completed requests that have a value, each with its value."""


@dataclass(frozen=True, kw_only=True)
class RequestValues:
    """All values of the request metrics and sample metrics of a block."""

    values: dict[str, list[tuple[RequestRecord, float]]] = field(default_factory=dict)
    """As `Values`; a metric without a value has no entry."""
    samples: dict[str, list[float]] = field(default_factory=dict)
    """Tag of a sample metric -> the values of all completed requests; a metric without a value has no entry."""
    no_value: dict[str, str] = field(default_factory=dict)
    """Tag of a metric without any value -> why."""
    impossible: list[str] = field(default_factory=list)
    """Figures that no server can reach, in words. Their metrics have no value."""


def request_values(block: Block) -> RequestValues:
    """Compute the metrics of each completed request.

    If one request has an impossible value, its metric has no value at all: the other requests would be no fair sample.
    """
    values: dict[str, list[tuple[RequestRecord, float]]] = {}
    samples: dict[str, list[float]] = {}
    reasons: dict[str, str] = {}
    impossible: dict[str, str] = {}

    for record in block.completed:
        for metric in REQUEST_METRICS:
            try:
                values.setdefault(metric.tag, []).append((record, metric.value(record)))
            except Impossible as error:
                impossible.setdefault(metric.tag, str(error))
            except NoValue as error:
                reasons[metric.tag] = str(error)
        for sample_metric in SAMPLE_METRICS:
            try:
                samples.setdefault(sample_metric.tag, []).extend(sample_metric.values(record))
            except NoValue as error:
                reasons[sample_metric.tag] = str(error)
    if why := _impossible_steps(block):
        impossible[TokensPerStep.tag] = why
    for tag, why in impossible.items():
        values.pop(tag, None)
        reasons[tag] = why
        if tag == TimePerOutputToken.tag:  # the gaps between tokens come from the same wrong counts
            samples.pop(InterTokenLatency.tag, None)
            reasons[InterTokenLatency.tag] = why
    known = {tag for tag, found in (*values.items(), *samples.items()) if found}
    tags = [metric.tag for metric in (*REQUEST_METRICS, *SAMPLE_METRICS)]
    return RequestValues(
        values={tag: found for tag, found in values.items() if found},
        samples={tag: found for tag, found in samples.items() if found},
        no_value={tag: reasons.get(tag, "no completed request") for tag in tags if tag not in known},
        impossible=list(impossible.values()),
    )


def _impossible_steps(block: Block) -> str:
    """Why the mean tokens per step of the block are more than the engine can yield; empty if they are not."""
    try:
        mean_tokens_per_step(block)
    except Impossible as error:
        return str(error)
    except NoValue:
        pass
    return ""
