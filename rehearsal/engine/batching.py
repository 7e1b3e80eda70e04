"""Continuous batching: requests wait, join the running batch at a step's boundary and leave it when they finish."""

from collections import deque

from rehearsal.engine.config import ModelConfig
from rehearsal.engine.forward import Cache
from rehearsal.engine.generator import Generator, Verified
from rehearsal.engine.metrics import EngineMetrics
from rehearsal.engine.sequence import Sequence, StepOutput


class BatchScheduler:
    """At most `max_num_seqs` sequences run; the others wait in order of arrival."""

    def __init__(
        self,
        *,
        generator: Generator,
        target: ModelConfig,
        draft: ModelConfig | None,
        max_num_seqs: int,
        window: int,
        metrics: EngineMetrics,
    ) -> None:
        self._generator = generator
        self._metrics = metrics
        self._window = window
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._free = [
            (Cache(target, positions=window), Cache(draft, positions=window) if draft else None)
            for _ in range(max_num_seqs)
        ]

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._running

    def add(self, sequence: Sequence) -> None:
        """Put a request in the queue."""
        self._waiting.append(sequence)
        self._observe()

    def abort(self, sequence: Sequence) -> None:
        """Forget a request whose client has gone. No effect if it has finished."""
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        elif sequence in self._running:
            self._release(sequence)
        else:
            return
        self._metrics.finished(sequence, reason="abort")
        self._observe()

    def step(self) -> list[tuple[Sequence, StepOutput]]:
        """One pass of the target model over the running batch. Returns what it added to each sequence."""
        while self._free and self._waiting:
            sequence = self._waiting.popleft()
            sequence.cache, sequence.draft_cache = self._free.pop()
            self._running.append(sequence)
        outputs = [(item.sequence, self._advance(item)) for item in self._generator.step(self._running)]
        for sequence, output in outputs:
            if output.finish_reason is not None:
                self._release(sequence)
                self._metrics.finished(sequence, reason=output.finish_reason)
        self._observe()
        return outputs

    def _advance(self, item: Verified) -> StepOutput:
        sequence = item.sequence
        first = sequence.generated == 0
        output = sequence.extend(item.chosen)
        sequence.draft_cached = min(sequence.draft_cached, len(sequence.tokens) - 1)
        self._metrics.stepped(sequence, generated=len(output.tokens), first=first)
        if item.drafted:
            sequence.accepted[item.accepted] += 1
            sequence.drafted += item.drafted
            self._metrics.speculated(drafted=item.drafted, accepted=item.accepted)
        return output

    def _release(self, sequence: Sequence) -> None:
        assert sequence.cache is not None
        self._running.remove(sequence)
        self._free.append((sequence.cache, sequence.draft_cache))
        sequence.cache = sequence.draft_cache = None

    def _observe(self) -> None:
        used = sum(len(sequence.tokens) for sequence in self._running)
        slots = len(self._running) + len(self._free)
        self._metrics.load(
            running=len(self._running), waiting=len(self._waiting), cache_usage=used / (slots * self._window)
        )
