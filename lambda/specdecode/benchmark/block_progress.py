"""Figures of a block while it runs, for a live table or a log."""

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
    finished: bool = False
    elapsed_s: float = 0.0
    """Seconds in which a measured request that has ended was under way. The arms take turns: another arm's time is not
    in it."""
    ended: int = 0
    failed: int = 0
    warmups: int = 0
    tokens: int = 0
    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)
    _reached_s: float = float("-inf")

    def add(self, record: RequestRecord) -> None:
        if record.warmup:
            self.warmups += 1
            return
        self.ended += 1
        ends = record.sent_s + record.end_s
        self.elapsed_s += max(0.0, ends - max(record.sent_s, self._reached_s))
        self._reached_s = max(self._reached_s, ends)
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
        """No request is left."""
        self.finished = True

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Expected seconds, from the pace so far. None if nothing has ended yet or the end is not known."""
        if not self.ended or self.requests is None or self.finished:
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
