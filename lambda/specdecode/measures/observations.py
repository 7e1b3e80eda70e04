"""The observations of a comparison: one a prompt, or a conversation; and when there are enough of them (ADR 62)."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from specdecode.measures.distribution import mean
from specdecode.measures.student import CONFIDENCE, EARLY, LogMean, over_prompts
from specdecode.records import RequestRecord

RELEVANT = 1.05
"""A speed-up nearer to 1 than this, either way, is not relevant: the margin of the equivalence test."""
MOST_GAIN, MOST_LOSS = 8.0, 2.0
"""Largest speed-up and slow-down of a single prompt that an early end reckons with: a step yields at most k + 1 tokens,
and costs seldom more than twice a plain one."""
GROWTH = 1.25
"""Requests at an interim test / requests at the one before. Each costs the time in which a load starts and ends."""


class Asked(NamedTuple):
    """The question of a request."""

    conversation: int
    """Index of its first request. A prompt without further turns is a conversation of one turn."""
    turn: int
    prompt: str = ""
    """Id of the prompt in its set, which is sent again if it has too few. Empty for a prompt of no set."""


def asked(record: RequestRecord) -> Asked:
    """The key of a record: equal for the same request, in any arm and round."""
    return Asked(record.index - record.turn, record.turn, record.prompt_id or "")


def observations(asked: Collection[Asked]) -> dict[str | int, list[Asked]]:
    """What counts as one observation -> its questions, in the order in which they are asked. The turns of a
    conversation depend on each other, so they are averaged. A prompt that is asked again is averaged over all times,
    since repeating it is no more evidence. If there is only one prompt, its repetitions are the observations.
    """
    by_id = len({key.prompt for key in asked}) > 1
    found: dict[str | int, list[Asked]] = defaultdict(list)
    for key in sorted(asked):
        found[key.prompt if by_id and key.prompt else key.conversation].append(key)
    return found


def differences(base: Mapping[Asked, float], other: Mapping[Asked, float]) -> dict[str | int, float]:
    """Observation -> `other` minus `base`, for those that both have."""
    both = observations(base.keys() & other.keys())
    return {name: mean([other[key] - base[key] for key in keys]) for name, keys in both.items()}


def interim_counts(fewest: int, most: int, step: int) -> Iterator[int]:
    """Numbers of requests after which to test them: `fewest` first, `most` last, at least `step` apart."""
    at = min(fewest, most)
    while at < most:
        yield at
        at = max(at + step, math.ceil(at * GROWTH))
    yield most


def difference(base: Mapping[Asked, float], other: Mapping[Asked, float]) -> LogMean | None:
    """Log speed-up of `other` before the last test, over the prompts of both. Arguments: prompt -> ln(tokens/s)."""
    found = differences(base, other)
    return over_prompts(list(found.values()))._replace(early=True) if found else None


def settled(found: LogMean | None, precision: float) -> str | None:
    """Why no more requests are needed, or None. The whole interval says pays, costs or no relevant difference; or it
    reaches no further than `precision` (0.05: 5%) to either side and contains 1. A verdict needs so many prompts that
    those which would turn it are not missed: where few prompts gain much (they copy their input), the first ones may
    hold none of them.
    """
    interval = found.interval() if found else None
    if found is None or interval is None:
        return None
    low, high = interval
    if low > 1.0 or high < 1.0:
        turned = turned_by_few(found, abs(found.mean), wrong=EARLY)
        return None if turned else f"its whole interval is {'above' if low > 1.0 else 'below'} 1"
    if low > 1.0 / RELEVANT and high < RELEVANT:
        turned = turned_by_few(found._replace(mean=-1.0), math.log(RELEVANT) - abs(found.mean), wrong=EARLY)
        return None if turned else f"its whole interval is within {RELEVANT - 1.0:.0%} of 1"
    narrow = math.sqrt(high / low) <= 1.0 + precision
    return f"its interval reaches no further than {precision:.1%} to either side" if narrow else None


def turned_by_few(found: LogMean, distance: float, *, wrong: float) -> bool:
    """Whether prompts that the sample lacks with a probability above `wrong` could move the mean by `distance`: from a
    loss up, each by ln MOST_GAIN, or from a gain down, each by ln MOST_LOSS. The least share of such prompts is
    distance / (distance + ln most).
    """
    share = distance / (distance + math.log(MOST_LOSS if found.mean > 0.0 else MOST_GAIN))
    return share < _unseen(found.n, wrong)


def raised_by_few(mean: float, n: int, *, wrong: float = 1.0 - CONFIDENCE) -> float:
    """Largest mean of the prompts of which n lack those that gain MOST_GAIN with a probability of `wrong`."""
    return mean + _unseen(n, wrong) * (math.log(MOST_GAIN) - mean)


def _unseen(n: int, wrong: float) -> float:
    """Largest share of the prompts of which n have none with a probability of `wrong`: (1 - p)^n."""
    return -math.expm1(math.log(wrong) / n)
