"""The engine's counters of speculation, read from `/metrics` before and after a block."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.fetch import fetch
from specdecode.records import BlockKey, EngineCounters

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})?\s+(\S+)")
_CACHING = re.compile(r'^vllm:cache_config_info\{[^}\n]{0,4000}?enable_prefix_caching="(True|False)"', re.MULTILINE)
_POSITION = re.compile(r'position="([0-9]{1,4})"')
_PREFIX = "spec_decode_"
_LARGEST = 2.0**53
"""Largest counter that is exact. A larger or negative counter is not used."""


@dataclass(frozen=True, kw_only=True)
class SpeculationCounters:
    """Totals since the server started (or, after `since`, of a block)."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    accepted_per_position: tuple[int, ...] = ()

    def since(self, before: SpeculationCounters) -> SpeculationCounters | None:
        """The difference; None when the server was restarted in between."""
        positions = tuple(
            after - (before.accepted_per_position[i] if i < len(before.accepted_per_position) else 0)
            for i, after in enumerate(self.accepted_per_position)
        )
        if min(self.drafts - before.drafts, self.draft_tokens - before.draft_tokens, *positions, 0) < 0:
            return None
        return SpeculationCounters(
            drafts=self.drafts - before.drafts,
            draft_tokens=self.draft_tokens - before.draft_tokens,
            accepted_tokens=self.accepted_tokens - before.accepted_tokens,
            accepted_per_position=positions,
        )

    def plus(self, more: SpeculationCounters) -> SpeculationCounters:
        """Sum of two parts of a block."""
        positions = zip_longest(self.accepted_per_position, more.accepted_per_position, fillvalue=0)
        return SpeculationCounters(
            drafts=self.drafts + more.drafts,
            draft_tokens=self.draft_tokens + more.draft_tokens,
            accepted_tokens=self.accepted_tokens + more.accepted_tokens,
            accepted_per_position=tuple(one + other for one, other in positions),
        )


async def read_counters(endpoint: Endpoint) -> SpeculationCounters | None:
    """Counters of the server. None if it has none (no `/metrics`, or no speculation)."""
    try:
        reply = await fetch(endpoint, "/metrics")
    except OSError:
        return None
    return parse_counters(reply.body.decode("utf-8", "replace")) if reply.status == 200 else None


def parse_counters(text: str) -> SpeculationCounters | None:
    """From Prometheus text: vLLM's `vllm:spec_decode_*_total`, under any engine's prefix, summed over its engines."""
    totals: dict[str, float] = {}
    positions: dict[int, float] = {}
    for line in text.split("\n"):
        if _PREFIX not in line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        if match is None:
            continue
        name, labels, value = match[1], match[2] or "", _number(match[3])
        if value is None:
            continue
        name = name.rpartition(_PREFIX)[2].removesuffix("_total")
        position = _POSITION.search(labels)
        if name == "num_accepted_tokens_per_pos" and position:
            positions[int(position[1])] = positions.get(int(position[1]), 0.0) + value
        else:
            totals[name] = totals.get(name, 0.0) + value
    return _counters(totals, positions)


def parse_prefix_caching(text: str) -> bool | None:
    """Whether the server keeps the beginnings of prompts: a label of vLLM's `vllm:cache_config_info` (0.32.0,
    vllm/config/cache.py, metrics_info). None if it does not say.
    """
    found = _CACHING.search(text)
    return None if found is None else found[1] == "True"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= _LARGEST else None


def _counters(totals: Mapping[str, float], positions: Mapping[int, float]) -> SpeculationCounters | None:
    if "num_draft_tokens" not in totals or "num_accepted_tokens" not in totals:
        return None
    if max(*totals.values(), *positions.values()) > _LARGEST:
        return None
    return SpeculationCounters(
        drafts=int(totals.get("num_drafts", 0)),
        draft_tokens=int(totals["num_draft_tokens"]),
        accepted_tokens=int(totals["num_accepted_tokens"]),
        accepted_per_position=tuple(int(positions[key]) for key in sorted(positions)),
    )


class BlockCounters:
    """Adds up the counters of the parts of each block. Counters of a part alone would mislead."""

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
