"""Speed-ups from another tool's figures: of single requests if the tool kept them, else of medians."""

from __future__ import annotations

import math

from specdecode.analysis.other_tools.llmperf_results import ImportedArm
from specdecode.analysis.statistics.groups import Stats
from specdecode.analysis.statistics.measured import SPEEDUPS
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.distribution import Summary
from specdecode.measures.student import LogMean, welch_log_ratio

NORMAL_IQR, MEDIAN_ERROR = 1.349, 1.2533
"""Interquartile range of a standard normal; standard error of its median times sqrt(n)."""
HIGHER = ("request_output_throughput", "tokens_per_step")


def log_speedups(base: ImportedArm, other: ImportedArm, before: ArmCase, after: ArmCase) -> tuple[Stats, str]:
    """Log speed-up of each metric that both arms have, and how it was found."""
    found: Stats = {}
    for metric in SPEEDUPS:
        sign = 1.0 if metric in HIGHER else -1.0
        if base.requests and other.requests:
            values = _values(base, metric), _values(other, metric)
            if all(len(part) >= 2 for part in values):
                stat = welch_log_ratio(values[1], values[0])
                found[metric] = stat._replace(mean=sign * stat.mean)
        elif metric in before.metrics and metric in after.metrics:
            parts = _middle(before.metrics[metric]), _middle(after.metrics[metric])
            if parts[0] and parts[1] and parts[0][0] == parts[1][0]:
                found[metric] = _ratio(parts[0][1], parts[1][1], sign)
    individually = base.requests and other.requests
    return found, (
        "Welch's t on the log of individual requests"
        if individually
        else "ratio of medians, standard error from the interquartile range"
    )


def _middle(summary: Summary) -> tuple[str, LogMean] | None:
    """The log of the median with its standard error, or of the 99th percentile without one."""
    if summary.p50 is not None and summary.p50 > 0:
        if summary.p25 is not None and summary.p75 is not None and summary.n > 1:
            deviation = (summary.p75 - summary.p25) / NORMAL_IQR / summary.p50
            variance = (MEDIAN_ERROR * deviation) ** 2 / summary.n
            return "p50", LogMean(math.log(summary.p50), variance, summary.n - 1.0, summary.n)
        return "p50", LogMean(math.log(summary.p50), 0.0, 0.0, summary.n)
    if summary.p99 is not None and summary.p99 > 0:
        return "p99", LogMean(math.log(summary.p99), 0.0, 0.0, summary.n)
    return None


def _ratio(before: LogMean, after: LogMean, sign: float) -> LogMean:
    variance = before.variance + after.variance
    df = min(before.df, after.df)
    if variance > 0 and df > 0:
        df = variance**2 / (before.variance**2 / before.df + after.variance**2 / after.df)
    return LogMean(sign * (after.mean - before.mean), variance, df, min(before.n, after.n))


def _values(arm: ImportedArm, metric: str) -> list[float]:
    """One corrected value a request."""
    found: list[float] = []
    for request in arm.requests:
        counted, e2e, ttft = (
            request.get(field) for field in ("number_output_tokens", "end_to_end_latency_s", "ttft_s")
        )
        tokens = min(counted, float(arm.max_tokens)) if counted else None
        value: float | None = None
        if metric == "end_to_end_latency":
            value = e2e
        elif metric == "ttft":
            value = ttft
        elif metric == "request_output_throughput" and tokens and e2e:
            value = tokens / e2e
        elif metric == "time_per_output_token" and tokens and tokens > 1 and e2e and ttft:
            value = (e2e - ttft) / (tokens - 1.0)
        if value is not None and value > 0:
            found.append(value)
    return found
