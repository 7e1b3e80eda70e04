"""The engine's counters of whole blocks. Counters of a part of a block would mislead."""

from __future__ import annotations

from collections.abc import Collection

from specdecode.benchmark.counters import SpeculationCounters
from specdecode.records import BlockKey, EngineCounters


class BlockCounters:
    """Adds up the counters of the parts of each block."""

    def __init__(self) -> None:
        self._counted: dict[BlockKey, tuple[SpeculationCounters | None, int]] = {}

    def add(self, block: BlockKey, counters: SpeculationCounters | None, *, already: int, now: int) -> None:
        """Add the counters of the requests that the block has `now` and did not have `already`."""
        before, counted = self._counted.get(block, (None, 0))
        if counters is None or counted != already:
            self._counted[block] = None, -1
        else:
            self._counted[block] = counters if before is None else before.plus(counters), now

    @property
    def blocks(self) -> Collection[BlockKey]:
        """Blocks in which requests were sent."""
        return self._counted.keys()

    def whole(self, *, trusted: bool) -> tuple[EngineCounters, ...]:
        """Counters of the complete blocks. `trusted`: whether the engine counts correctly."""
        return tuple(
            EngineCounters(
                variant=variant,
                case=case,
                round=round_,
                level=level,
                drafts=counters.drafts,
                draft_tokens=counters.draft_tokens,
                accepted_tokens=counters.accepted_tokens,
                accepted_per_position=counters.accepted_per_position,
                trusted=trusted,
            )
            for (variant, case, round_, level), (counters, _) in self._counted.items()
            if counters is not None
        )
