"""Whether two arms wrote the same text, and their first difference."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.analysis.results.comparison import Difference, Equality
from specdecode.records import RequestRecord

CONTEXT_CHARS = 60


def equality(
    *,
    base: Sequence[RequestRecord],
    other: Sequence[RequestRecord],
    temperature: float,
) -> Equality:
    """Compare outputs of requests with the same prompt. They are of the same round if both arms have
    it, else of each arm's first round.
    """
    by_round = {(record.round, record.index): record for record in base if record.error is None}
    first_round: dict[int, RequestRecord] = {}
    for record in base:
        if record.error is None:
            first_round.setdefault(record.index, record)
    compared = identical = from_start = 0
    differences: list[Difference] = []
    for record in other:
        twin = by_round.get((record.round, record.index)) or first_round.get(record.index)
        if record.error is not None or twin is None or twin.prompt_sha256 != record.prompt_sha256:
            continue
        compared += 1
        if twin.output == record.output:
            identical += 1
        else:
            differences.append(_difference(twin.output, record))
            from_start += differences[-1].at < _first_token_chars(twin)
    first = min(differences, key=lambda difference: difference.at, default=None)
    return Equality(
        compared=compared,
        identical=identical,
        from_start=from_start,
        expected=temperature == 0,
        first=first,
        shortest_common=first.at if first else None,
    )


def _first_token_chars(record: RequestRecord) -> int:
    """Characters of the answer's first token: mean over its first chunk. 1 if this is not known."""
    if not record.chunks:
        return 1
    first = record.chunks[0]
    return max(1, first.chars // max(1, first.tokens or first.chars))


def _difference(base: str, other: RequestRecord) -> Difference:
    at = min(len(base), len(other.output))
    at = next((i for i, (a, b) in enumerate(zip(base, other.output, strict=False)) if a != b), at)
    return Difference(
        index=other.index,
        round=other.round,
        at=at,
        before=base[max(0, at - CONTEXT_CHARS) : at],
        base=base[at : at + CONTEXT_CHARS],
        other=other.output[at : at + CONTEXT_CHARS],
    )
