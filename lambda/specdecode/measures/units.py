"""What one observation of a comparison is: a prompt, or a conversation with all its turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from specdecode.measures.distribution import mean
from specdecode.records import RequestRecord


class Asked(NamedTuple):
    """What a request asks."""

    conversation: int
    """Index of its first request; a prompt of its own is a conversation of one turn."""
    turn: int
    prompt: str = ""
    """Its id in its set, which is sent again where more requests are measured than the set has; else empty."""
    unit: int = 0
    """Which part of a run on several nodes asked it: what two nodes answered is never compared."""


def asked(record: RequestRecord) -> Asked:
    """Equal in two records of the same request on the same node, of any arm and round."""
    return Asked(record.index - record.turn, record.turn, record.prompt_id or "", record.unit)


def differences(base: Mapping[Asked, float], other: Mapping[Asked, float]) -> list[float]:
    """`other` minus `base` of each prompt that both have, in the order in which they are asked; of a conversation the
    mean over its turns, which are not independent of each other, and of a prompt that is asked again the mean over
    all times and nodes: repeating it is no more evidence. Where one prompt is all there is, its repetitions are all
    there is.
    """
    both = sorted(base.keys() & other.keys())
    by_id = len({key.prompt for key in both}) > 1
    found: dict[str | int, list[float]] = defaultdict(list)
    for key in both:
        found[key.prompt if by_id and key.prompt else key.conversation].append(other[key] - base[key])
    return [mean(each) for each in found.values()]
