"""summary.json: what was measured, in numbers, with the formula of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from specdecode.benchmark.metrics import (
    ALL_METRICS,
    BLOCK_METRICS,
    REQUEST_METRICS,
    SAMPLE_METRICS,
    AcceptanceRate,
    Block,
    ErrorRate,
    NoValue,
)
from specdecode.benchmark.metrics.tokens_per_step import histogram
from specdecode.benchmark.statistics import Distribution

SCHEMA_VERSION = 1
DOUBTFUL_S = 0.005
"""A block with a chunk whose time may be wrong by more than this is marked."""
HELD_BACK_S = 0.1
"""A request of an open loop that is sent later than this after its time has waited for others to end."""


def block_summary(block: Block) -> dict[str, Any]:
    """Every metric of a block; under `no_value` those without one, and why."""
    metrics: dict[str, Any] = {}
    no_value: dict[str, str] = {}
    for request_metric in REQUEST_METRICS:
        values, reason = _collect((lambda r=r, m=request_metric: [m.value(r)]) for r in block.completed)
        _put(metrics, no_value, request_metric.tag, values, reason)
    for sample_metric in SAMPLE_METRICS:
        values, reason = _collect((lambda r=r, m=sample_metric: m.values(r)) for r in block.completed)
        _put(metrics, no_value, sample_metric.tag, values, reason)
    for block_metric in BLOCK_METRICS:
        try:
            metrics[block_metric.tag] = block_metric.block_value(block)
        except NoValue as error:
            no_value[block_metric.tag] = str(error)
    lag = max((record.client_lag_s for record in block.records), default=0.0)
    doubt = max((record.time_doubt_s for record in block.records), default=0.0)
    late = max((r.sent_s - r.scheduled_s for r in block.records if r.scheduled_s is not None), default=0.0)
    return {
        "requests": {
            "started": len(block.records),
            "completed": len(block.completed),
            "failed": len(block.records) - len(block.completed),
            "failed_by_kind": ErrorRate.by_kind(block),
            "without_valid_usage": sum(record.completion_tokens is None for record in block.completed),
        },
        "window_s": block.window_s if block.records else 0.0,
        "metrics": metrics,
        "no_value": no_value,
        "acceptance_source": AcceptanceRate.source(block) if AcceptanceRate.tag in metrics else None,
        "tokens_per_chunk": {str(tokens): count for tokens, count in histogram(block.records).items()},
        "client": {
            "largest_lag_s": lag,
            "largest_time_doubt_s": doubt,
            "doubtful": doubt > DOUBTFUL_S,
            "largest_send_delay_s": late,
        },
    }


def _collect(getters: Iterable[Any]) -> tuple[list[float], str]:
    values: list[float] = []
    reason = "no completed request"
    for getter in getters:
        try:
            values += getter()
        except NoValue as error:
            reason = str(error)
    return values, reason


def _put(metrics: dict[str, Any], no_value: dict[str, str], tag: str, values: Sequence[float], reason: str) -> None:
    distribution = Distribution.of(values)
    if distribution is None:
        no_value[tag] = reason
    else:
        metrics[tag] = distribution.as_dict()


def formulas() -> dict[str, dict[str, str]]:
    """Tag -> formula, unit and direction of every metric."""
    return {
        metric.tag: {"formula": metric.formula, "unit": str(metric.unit), "direction": str(metric.direction)}
        for metric in ALL_METRICS
    }


def merged(summary: dict[str, Any], older: dict[str, Any] | None) -> dict[str, Any]:
    """`summary` with the blocks and arms of an older one of the same run that it does not have itself: a run's waves
    and rounds are measured by one process each.
    """
    if older is None or older.get("run_id") != summary["run_id"]:
        return summary
    own = {_key(block) for block in summary["blocks"]}
    blocks = [block for block in older.get("blocks", []) if _key(block) not in own]
    return {**summary, "blocks": blocks + summary["blocks"], "arms": {**older.get("arms", {}), **summary["arms"]}}


def _key(block: dict[str, Any]) -> tuple[str, str, int]:
    return block["variant"], block["case"], block["round"]
