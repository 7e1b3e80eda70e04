"""The unit of observation of a comparison: a prompt, or a conversation with all its turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from specdecode.measures.distribution import mean
from specdecode.records import RequestRecord


class Asked(NamedTuple):
    """The question of a request."""

    conversation: int
    """Index of its first request. A prompt without further turns is a conversation of one turn."""
    turn: int
    prompt: str = ""
    """Id of the prompt in its set. A set is sent again if more requests are measured than it has. Empty for a prompt of
    no set."""
    unit: int = 0
    """Number of the run's part on its node. Answers of two nodes are never compared."""


def asked(record: RequestRecord) -> Asked:
    """The key of a record: equal for the same request on the same node, in any arm and round."""
    return Asked(record.index - record.turn, record.turn, record.prompt_id or "", record.unit)


def differences(base: Mapping[Asked, float], other: Mapping[Asked, float]) -> list[float]:
    """`other` minus `base` for each prompt that both have, in the order in which they are asked.

    The turns of a conversation depend on each other, so they are averaged. A prompt that is asked again is averaged
    over all times and nodes, since repeating it is no more evidence. If there is only one prompt, its repetitions are
    the observations.
    """
    both = sorted(base.keys() & other.keys())
    by_id = len({key.prompt for key in both}) > 1
    found: dict[str | int, list[float]] = defaultdict(list)
    for key in both:
        found[key.prompt if by_id and key.prompt else key.conversation].append(other[key] - base[key])
    return [mean(each) for each in found.values()]
