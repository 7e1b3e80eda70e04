"""Speed-ups of one arm over another, paired by prompt, on the log scale; or of an arm's last round over its first."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence

from specdecode.analysis.results.comparison import Drift
from specdecode.analysis.results.pairs import HEADLINE
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.analysis.statistics.measured import BY_NAME, SPEEDUPS, Arms
from specdecode.analysis.statistics.shared_noise import Rounds, Seen
from specdecode.experiment.model import Experiment
from specdecode.measures.arm import Measured
from specdecode.measures.observations import Asked, asked, differences, observations
from specdecode.measures.student import LogMean, combine, over_prompts

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
    """Weights of the rounds so that each way in which the two arms held devices counts the same, since what the groups
    of devices differ by cancels then; and whether there is more than one way.
    """
    devices = {(item.variant, item.round): item.devices for item in held}
    ways = {number: (devices.get((base, number)), devices.get((other, number))) for number in rounds}
    often = Counter(ways.values())
    return {number: 1.0 / often[way] for number, way in ways.items()}, len(often) > 1


def rounds_seen(base: Measured, other: Measured, metric: str, rounds: Weights = None) -> Rounds:
    """What each round shows of each observation that both arms have in it."""
    found: dict[int, Mapping[Hashable, Seen]] = {}
    counted = set(rounds or {record.round for record in base.block.records})
    for number in sorted({record.round for record, _ in other.values.get(metric, ())} & counted):
        left, right = (log_by_prompt(each, metric, {number: 1.0}) for each in (base, other))
        portion = {asked(record): record.portion for record in other.block.records if record.round == number}
        first = {name: portion[keys[0]] for name, keys in observations(left.keys() & right.keys()).items()}
        found[number] = {name: Seen(first[name], value) for name, value in differences(left, right).items()}
    return {number: seen for number, seen in found.items() if seen}


def paired(
    base: Measured, other: Measured, metric: str, rounds: tuple[Weights, Weights] = (None, None)
) -> LogMean | None:
    """Log speed-up over the prompts that both arms completed: above 0 `other` is better. None if there is none.

    One observation is a prompt, its rounds averaged first, or a conversation. `rounds`: those that count, of `base` and
    of `other`. The noise that requests of the same minutes share is not in it (shared_noise.py).
    """
    left, right = log_by_prompt(base, metric, rounds[0]), log_by_prompt(other, metric, rounds[1])
    sign = -1.0 if BY_NAME[metric].better == "lower" else 1.0
    found = [sign * each for each in differences(left, right).values()]
    return over_prompts(found)._replace(early=base.stopped_early or other.stopped_early) if found else None


def speedups(base: Measured, other: Measured, rounds: tuple[Weights, Weights]) -> dict[str, LogMean]:
    """Log speed-up of every compared metric, the headline first. `rounds`: those of each arm that count."""
    return {metric: stat for metric in SPEEDUPS if (stat := paired(base, other, metric, rounds))}


def drifts(experiment: Experiment, arms: Arms, device_groups: Sequence[DeviceGroup]) -> tuple[Drift, ...]:
    """Each arm's last round over its first (A-B-A, or another device group), over all cases that both measured."""
    held_by = {(item.variant, item.round): item for item in device_groups}
    found: list[Drift] = []
    for variant in (variant.name for variant in experiment.variants):
        own = [arm for case in experiment.workload.cases if (arm := arms.get((variant, case.name)))]
        rounds = sorted({record.round for each in own for record in each.block.records})
        if len(rounds) < 2:
            continue
        ends = rounds[0], rounds[-1]
        weights: tuple[Weights, Weights] = ({ends[0]: 1.0}, {ends[1]: 1.0})
        stats = [stat for each in own if (stat := paired(each, each, HEADLINE, weights))]
        if not stats:
            continue
        total = combine(stats, [1.0 / len(stats)] * len(stats))
        low, high = total.interval() or (None, None)
        held = [held_by.get((variant, number)) for number in ends]
        moved = len({frozenset(each.devices) for each in held if each}) > 1
        first, second = (
            f"round {number}"
            + (f" on {f'group {each.group}' if each.group else ', '.join(each.devices)}" if each else "")
            for number, each in zip(ends, held, strict=True)
        )
        found.append(
            Drift(
                variant=variant,
                cause="time and device group" if moved else "time",
                first=first,
                second=second,
                ratio=total.ratio,
                low=low,
                high=high,
                shown=low is not None and high is not None and not low <= 1.0 <= high,
            )
        )
    return tuple(found)
