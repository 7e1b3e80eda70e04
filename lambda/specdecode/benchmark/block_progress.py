"""Figures of a block while it runs, for a live table or a log."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from specdecode.measures.distribution import quantile
from specdecode.measures.metrics.latency import TimePerOutputToken, TimeToFirstToken
from specdecode.measures.metrics.metric import NoValue, RequestMetric
from specdecode.records import RequestRecord


@dataclass
class BlockProgress:
    """Running figures of one block."""

    variant: str
    case: str
    level: str
    requests: int | None
    began: float = field(default_factory=time.monotonic)
    finished: float | None = None
    ended: int = 0
    failed: int = 0
    warmups: int = 0
    tokens: int = 0
    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)

    def add(self, record: RequestRecord) -> None:
        if record.warmup:
            self.warmups += 1
            self.began = time.monotonic()
            return
        self.ended += 1
        if record.error is not None:
            self.failed += 1
            return
        self.tokens += record.completion_tokens or 0
        for values, metric in ((self.ttft, TimeToFirstToken), (self.tpot, TimePerOutputToken)):
            _append(values, metric, record)

    @property
    def name(self) -> str:
        return f"{self.variant}/{self.case}{f' ({self.level})' if self.level else ''}"

    def finish(self) -> None:
        """Stop the clock."""
        self.finished = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds of the measured part: since the end of the warm-up."""
        return (self.finished or time.monotonic()) - self.began

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Expected seconds, from the pace so far. None if nothing has ended yet or the end is not known."""
        if not self.ended or self.requests is None or self.finished is not None:
            return None
        return self.elapsed_s / self.ended * max(self.requests - self.ended, 0)

    def line(self) -> str:
        of = "" if self.requests is None else f"/{self.requests}"
        parts = [f"{self.name}: {self.ended}{of} requests", f"{self.tokens_per_s:.1f} tokens/s"]
        parts += [f"TTFT p50 {milliseconds(self.ttft)}", f"TPOT p50 {milliseconds(self.tpot)}"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.remaining_s:
            parts.append(f"about {self.remaining_s:.0f} s left")
        return ", ".join(parts)


def _append(values: list[float], metric: type[RequestMetric], record: RequestRecord) -> None:
    try:
        values.append(metric.value(record))
    except NoValue:
        return


def milliseconds(values: list[float]) -> str:
    """Median in milliseconds, or a dash."""
    return f"{quantile(sorted(values), 0.5) * 1000:.2f} ms" if values else "-"
