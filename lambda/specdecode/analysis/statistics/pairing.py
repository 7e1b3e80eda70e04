"""Speed-ups of one arm over another: paired by prompt, on the log scale."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence

from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.analysis.statistics.measured import BY_NAME, SPEEDUPS
from specdecode.analysis.statistics.shared_noise import Rounds, Seen
from specdecode.measures.arm import Measured
from specdecode.measures.observations import Asked, asked, differences, observations
from specdecode.measures.student import LogMean, over_prompts

METHOD = (
    "Student's t on the log-ratio of paired prompts (rounds averaged; from 12 prompts on, their skewness too), with "
    "the noise that requests of the same minutes share"
)
ONE_PROMPT = METHOD.replace("paired prompts", "paired requests of one prompt").replace("12 prompts", "12")
STOPPED_EARLY = (
    "anytime-valid t interval on the log-ratio of paired prompts (rounds averaged), with the noise that requests of "
    "the same minutes share"
)
Weights = Mapping[int, float] | None
"""Weights of the rounds whose requests count. None: all rounds, with equal weight."""


def log_by_prompt(measured: Measured, metric: str, rounds: Weights = None) -> dict[Asked, float]:
    """Prompt -> mean over rounds of ln(metric), for completed requests."""
    logs: dict[Asked, list[tuple[float, float]]] = defaultdict(list)
    for record, value in measured.values.get(metric, ()):
        if value > 0.0 and (rounds is None or record.round in rounds):
            logs[asked(record)].append((1.0 if rounds is None else rounds[record.round], math.log(value)))
    return {
        prompt: math.fsum(weight * value for weight, value in each) / math.fsum(weight for weight, _ in each)
        for prompt, each in logs.items()
    }


def balanced(
    base: str, other: str, rounds: Collection[int], held: Sequence[DeviceGroup]
) -> tuple[dict[int, float], bool]:
    """Weights of the rounds so that each way in which the two arms held devices counts the same; and whether there is
    more than one way.

    Two rounds swap the devices, and what the groups differ by cancels. With three rounds one way is there twice.
    """
    devices = {(item.variant, item.round): item.devices for item in held}
    ways = {number: (devices.get((base, number)), devices.get((other, number))) for number in rounds}
    often = Counter(ways.values())
    return {number: 1.0 / often[way] for number, way in ways.items()}, len(often) > 1


def rounds_seen(base: Measured, other: Measured, metric: str, rounds: Weights = None) -> Rounds:
    """What each round shows of each observation that both arms have in it."""
    found: dict[int, Mapping[Hashable, Seen]] = {}
    for number in sorted({record.round for record, _ in other.values.get(metric, ())} & set(rounds or _all(base))):
        left, right = (log_by_prompt(each, metric, {number: 1.0}) for each in (base, other))
        portion = {asked(record): record.portion for record in other.block.records if record.round == number}
        first = {name: portion[keys[0]] for name, keys in observations(left.keys() & right.keys()).items()}
        found[number] = {name: Seen(first[name], value) for name, value in differences(left, right).items()}
    return {number: seen for number, seen in found.items() if seen}


def _all(measured: Measured) -> set[int]:
    return {record.round for record in measured.block.records}


def paired(
    base: Measured, other: Measured, metric: str, rounds: tuple[Weights, Weights] = (None, None)
) -> LogMean | None:
    """Log speed-up over the prompts that both arms completed: above 0 `other` is better. None if there is no such
    prompt.

    One prompt is one observation: its rounds are averaged first, so that repeating a prompt does not count as more
    evidence. A conversation is one observation too, since its turns depend on each other. `rounds`: rounds that count,
    of `base` and of `other`. The noise that requests of the same minutes share is not in it (shared_noise.py).
    """
    left, right = log_by_prompt(base, metric, rounds[0]), log_by_prompt(other, metric, rounds[1])
    sign = -1.0 if BY_NAME[metric].better == "lower" else 1.0
    found = [sign * each for each in differences(left, right).values()]
    return over_prompts(found)._replace(early=base.stopped_early or other.stopped_early) if found else None


def speedups(base: Measured, other: Measured, rounds: tuple[Weights, Weights]) -> dict[str, LogMean]:
    """Log speed-up of every compared metric, the headline first. `rounds`: those of each arm that count."""
    found = {metric: paired(base, other, metric, rounds) for metric in SPEEDUPS}
    return {metric: stat for metric, stat in found.items() if stat is not None}
