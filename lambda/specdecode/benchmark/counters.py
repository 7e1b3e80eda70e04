"""The engine's counters of speculation, read from `/metrics` before and after a block."""

import re
from collections import defaultdict
from collections.abc import Collection
from itertools import zip_longest

from specdecode.benchmark.endpoint import Endpoint, fetch
from specdecode.records import BlockKey, EngineCounters
from specdecode.records.servers import MOST

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})?\s+(\S+)")
_CACHING = re.compile(r'^vllm:cache_config_info\{[^}\n]{0,4000}?enable_prefix_caching="(True|False)"', re.MULTILINE)
_POSITION = re.compile(r'position="([0-9]{1,4})"')
_PREFIX = "spec_decode_"
_LARGEST = 2.0**53
"""Largest counter that is exact. A larger or negative counter is not used."""


Counts = tuple[int, ...]
"""Drafts, draft tokens, accepted tokens, then the accepted tokens at draft position 1, 2, …: totals since the server
started, or of a block."""


def since(before: Counts, after: Counts) -> Counts | None:
    """The difference; None when the server was restarted in between."""
    found = tuple(now - then for now, then in zip_longest(after, before, fillvalue=0))
    return found if min(found) >= 0 else None


async def metrics_of(endpoint: Endpoint) -> str | None:
    """The text of the server's `/metrics`. None if it has none."""
    try:
        reply = await fetch(endpoint, "/metrics")
    except OSError:
        return None
    return reply.body.decode("utf-8", "replace") if reply.status == 200 else None


async def read_counters(endpoint: Endpoint) -> Counts | None:
    """Counters of the server. None if it has none (no `/metrics`, or no speculation)."""
    text = await metrics_of(endpoint)
    return None if text is None else parse_counters(text)


def parse_counters(text: str) -> Counts | None:
    """From Prometheus text: vLLM's `vllm:spec_decode_*_total`, under any engine's prefix, summed over its engines."""
    totals: dict[str, float] = defaultdict(float)
    positions: dict[int, float] = defaultdict(float)
    for line in text.split("\n"):
        match = _SAMPLE.match(line) if _PREFIX in line and not line.startswith("#") else None
        if match is None or (value := _number(match[3])) is None:
            continue
        name = match[1].rpartition(_PREFIX)[2].removesuffix("_total")
        if name == "num_accepted_tokens_per_pos" and (position := _POSITION.search(match[2] or "")):
            positions[int(position[1])] += value
        else:
            totals[name] += value
    if "num_draft_tokens" not in totals or "num_accepted_tokens" not in totals:
        return None
    if max(*totals.values(), *positions.values()) > _LARGEST:
        return None
    first = (totals[name] for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"))
    return tuple(map(int, (*first, *(positions[key] for key in sorted(positions)))))


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


class BlockCounters:
    """Adds up the counters of the parts of each block. Counters of a part alone would mislead."""

    def __init__(self) -> None:
        self._counted: dict[BlockKey, tuple[Counts | None, int]] = {}

    def add(self, block: BlockKey, counters: Counts | None, *, already: int, now: int) -> None:
        """Add the counters of the requests that the block has `now` and did not have `already`."""
        before, counted = self._counted.get(block, (None, 0))
        if counters is None or counted != already:
            self._counted[block] = None, -1
        else:
            self._counted[block] = tuple(map(sum, zip_longest(before or (), counters, fillvalue=0))), now

    @property
    def blocks(self) -> Collection[BlockKey]:
        """Blocks in which requests were sent."""
        return self._counted.keys()

    def whole(self, *, trusted: bool) -> tuple[EngineCounters, ...]:
        """Counters of the complete blocks that a server can reach. `trusted`: whether the engine counts correctly."""
        return tuple(
            EngineCounters(
                variant=variant,
                case=case,
                round=round_,
                level=level,
                drafts=counters[0],
                draft_tokens=counters[1],
                accepted_tokens=counters[2],
                accepted_per_position=counters[3:],
                trusted=trusted,
            )
            for (variant, case, round_, level), (counters, _) in self._counted.items()
            if counters is not None and max(counters) <= MOST
        )
