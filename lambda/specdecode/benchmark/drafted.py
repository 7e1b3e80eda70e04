"""Drafted and accepted tokens of one answer, from the server's last chunk."""

from __future__ import annotations

from typing import Any, TypeGuard

from specdecode.records import MOST_POSITIONS, Drafted

_LARGEST = 2**53


def drafted_of(metrics: Any) -> Drafted | None:
    """From the `metrics` object of vLLM's usage chunk. None if there is none, or its figures contradict themselves.

    `acceptance_histogram[j]` is the number of steps that accepted j drafts: the draft at position i was accepted in the
    steps from j = i on (vLLM 0.32.0, vllm/entrypoints/generate/base/protocol.py, SpeculativeDecodingMetrics). The field
    is called experimental there: of another shape it is passed over, and the counters of /metrics remain.
    """
    given = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    if not isinstance(given, dict):
        return None
    histogram, drafts = given.get("acceptance_histogram"), given.get("num_draft_tokens")
    if not isinstance(histogram, list) or not 1 <= len(histogram) <= MOST_POSITIONS + 1:
        return None
    if not _is_count(drafts) or not all(_is_count(count) for count in histogram):
        return None
    steps = sum(histogram)
    accepted = sum(at * count for at, count in enumerate(histogram))
    if given.get("num_spec_steps", steps) != steps or given.get("num_accepted_draft_tokens", accepted) != accepted:
        return None
    if not accepted <= drafts <= steps * (len(histogram) - 1) or steps > _LARGEST:
        return None
    positions = tuple(sum(histogram[at:]) for at in range(1, len(histogram)))
    return Drafted(drafts=steps, draft_tokens=drafts, accepted_tokens=accepted, accepted_per_position=positions)


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _LARGEST
