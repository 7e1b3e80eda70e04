"""The engine's counters of speculation, read from `/metrics` before and after a block."""

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice, zip_longest

from specdecode.benchmark.endpoint import Endpoint, fetch
from specdecode.escape import clip, plain
from specdecode.records import BlockKey, EngineCounters
from specdecode.records.servers import MOST

MAX_METRICS_BYTES = 4 * 2**20
"""Longest `/metrics` that is read: forty times vLLM's, which has some 100 kB for an engine."""
MOST_SAMPLES = 20_000
"""Most counters of speculation in it: those of 64 positions of 256 engines."""
_SAMPLE = re.compile(
    r"^[\w:]*spec_decode_(num_drafts|num_draft_tokens|num_accepted_tokens(?:_per_pos)?)(?:_total)?"
    r"(?:\{([^}\n]*)\})?[ \t]+(\S+)",
    re.MULTILINE | re.ASCII,
)
"""vLLM's `vllm:spec_decode_*_total`, under any engine's prefix."""
_CACHING = re.compile(r'^vllm:cache_config_info\{[^}\n]{0,4000}?enable_prefix_caching="(True|False)"', re.MULTILINE)
_STARTED = re.compile(r"^process_start_time_seconds[ \t]+(\S+)", re.MULTILINE)
_POSITION = re.compile(r'position="([0-9]{1,4})"')
_LARGEST = 2.0**53
"""Largest counter that is exact. A larger or negative counter is not used."""
_SHOWN = 60


Counts = tuple[int, ...]
"""Drafts, draft tokens, accepted tokens, then the accepted tokens at draft position 1, 2, …: totals since the server
started, or of a block."""


@dataclass(frozen=True)
class Unusable:
    """Counters that a server has and that cannot be used."""

    why: str


Counted = Counts | Unusable | None
"""None: the server has no counters (no `/metrics`, or no speculation)."""


def since(before: Counted, after: Counted) -> Counted:
    """The difference."""
    if isinstance(before, Unusable) or before is None:
        return before
    if isinstance(after, Unusable):
        return after
    if after is None:
        return Unusable("they are gone after the load")
    found = tuple(now - then for now, then in zip_longest(after, before, fillvalue=0))
    return found if min(found) >= 0 else Unusable("they went back during the load (was the server restarted?)")


async def metrics_of(endpoint: Endpoint) -> str | Unusable | None:
    """The text of the server's `/metrics`. None if it has none."""
    try:
        reply = await fetch(endpoint, "/metrics", most=MAX_METRICS_BYTES)
    except OSError as error:
        return Unusable(endpoint.without_key(clip(plain(str(error)), _SHOWN * 3)) or "it does not answer in time")
    return reply.body.decode("utf-8", "replace") if reply.status == 200 else None


async def read_counters(endpoint: Endpoint) -> Counted:
    """Counters of the server, summed over its engines."""
    text = await metrics_of(endpoint)
    return parse_counters(text) if isinstance(text, str) else text


def parse_counters(text: str) -> Counted:
    """From Prometheus text."""
    totals: dict[str, float] = defaultdict(float)
    positions: dict[int, float] = defaultdict(float)
    for number, match in enumerate(islice(_SAMPLE.finditer(text), MOST_SAMPLES + 1)):
        name, labels, said = match.groups()
        value = _number(said)
        if number == MOST_SAMPLES:
            return Unusable(f"there are more than {MOST_SAMPLES:,} of them")
        if value is None:
            return Unusable(f"{name} is {clip(plain(said), _SHOWN)}")
        if name == "num_accepted_tokens_per_pos" and (position := _POSITION.search(labels or "")):
            positions[int(position[1])] += value
        else:
            totals[name] += value
    if "num_draft_tokens" not in totals or "num_accepted_tokens" not in totals:
        return None
    if (most := max(*totals.values(), *positions.values())) > _LARGEST:
        return Unusable(f"one is {most:g}")
    first = (totals[name] for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"))
    return tuple(map(int, (*first, *(positions[key] for key in sorted(positions)))))


def parse_prefix_caching(text: str) -> bool | None:
    """Whether the server keeps the beginnings of prompts: a label of vLLM's `vllm:cache_config_info` (0.32.0,
    vllm/config/cache.py, metrics_info). None if it does not say.
    """
    found = _CACHING.search(text)
    return None if found is None else found[1] == "True"


def parse_started(text: str) -> float | None:
    """When the server's process began: a gauge of every Prometheus client, and so of vLLM's default registry. None if
    it does not say, as with several API servers (v1/metrics/prometheus.py, get_prometheus_registry).
    """
    found = _STARTED.search(text)
    return None if found is None else _number(found[1])


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= _LARGEST else None


class BlockCounters:
    """Adds up the counters of the parts of each block. Counters of a part alone would mislead."""

    def __init__(self) -> None:
        self._counted: dict[BlockKey, tuple[Counted, int]] = {}

    def add(self, block: BlockKey, counters: Counted, *, already: int, now: int) -> None:
        """Add the counters of the requests that the block has `now` and did not have `already`."""
        before, counted = self._counted.get(block, (None, 0))
        if isinstance(before, Unusable):
            return
        if isinstance(counters, Unusable) or counters is None or counted != already:
            self._counted[block] = counters if isinstance(counters, Unusable) else None, -1
            return
        total = tuple(map(sum, zip_longest(before or (), counters, fillvalue=0)))
        self._counted[block] = total if max(total) <= MOST else Unusable(f"they grew by {max(total):,}"), now

    @property
    def blocks(self) -> Collection[BlockKey]:
        """Blocks in which requests were sent."""
        return self._counted.keys()

    def unused(self) -> list[str]:
        """Why a block has no counters although its server has some: a sentence each."""
        return [
            f"{variant}/{case} at {level}{f' in round {round_ + 1}' if round_ else ''}: the server's own counters of "
            f"speculation are not used: {counted.why}."
            for (variant, case, round_, level), (counted, _) in self._counted.items()
            if isinstance(counted, Unusable)
        ]

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
            if isinstance(counters, tuple)
        )
