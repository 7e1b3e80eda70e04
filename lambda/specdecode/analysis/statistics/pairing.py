"""Speed-ups of one arm over another, paired by prompt, on the log scale; or of an arm's last round over its first."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from specdecode.analysis.results.comparison import Drift
from specdecode.analysis.results.pairs import HEADLINE
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.analysis.statistics.measured import BY_NAME, SPEEDUPS, Arms
from specdecode.analysis.statistics.shared_noise import Rounds, Seen
from specdecode.experiment.model import Experiment
from specdecode.measures import course
from specdecode.measures.arm import Measured
from specdecode.measures.distribution import mean
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


Logs = Mapping[Asked, float]
"""Prompt -> mean over rounds of ln(metric)."""


def logs_of_both(base: Measured, other: Measured, metric: str, rounds: Weights = None) -> tuple[Logs, Logs]:
    """What both arms completed, each prompt in the same rounds: else what moves both from one round to the next would
    be in their ratio. A base that was measured before and after the other has the mean of both.
    """
    left, right = _logs(base, metric), _logs(other, metric)
    if moved := _moved(base, other, metric):
        left = {key: value + moved[key] / 2.0 for key, value in left.items() if key in moved}
    both = left.keys() & right.keys()
    first, second = ({key: each[key] for key in both} for each in (left, right))
    return _over_rounds(first, rounds), _over_rounds(second, rounds)


def _logs(measured: Measured, metric: str) -> dict[tuple[int, Asked], float]:
    """Round and prompt -> ln(metric), for completed requests."""
    values = measured.values.get(metric, ())
    return {(record.round, asked(record)): math.log(value) for record, value in values if value > 0.0}


def brackets(base: Measured, other: Measured) -> bool:
    """Whether `base` was measured before `other` and once more after it."""
    return course.brackets(base.terms.spans, other.terms.spans)


def beside(base: Measured, other: Measured) -> tuple[Measured, Measured]:
    """Both arms in the rounds that both have; a base that brackets `other` in all of its own."""
    if brackets(base, other):
        return base, other
    rounds = rounds_of_both([base], [other])
    return base.within(rounds), other.within(rounds)


def _moved(base: Measured, other: Measured, metric: str) -> dict[tuple[int, Asked], float]:
    """By how much each prompt of a base that brackets `other` moved from its first time to its second."""
    logs = _logs(base, metric) if brackets(base, other) else {}
    return {
        (0, prompt): logs[1, prompt] - value
        for (number, prompt), value in logs.items()
        if not number and (1, prompt) in logs
    }


def _over_rounds(logs: Mapping[tuple[int, Asked], float], rounds: Weights) -> Logs:
    found: dict[Asked, list[tuple[float, float]]] = defaultdict(list)
    for (number, prompt), value in sorted(logs.items()):
        if rounds is None or number in rounds:
            found[prompt].append((1.0 if rounds is None else rounds[number], value))
    return {
        prompt: math.fsum(weight * value for weight, value in each) / math.fsum(weight for weight, _ in each)
        for prompt, each in found.items()
    }


def rounds_of_both(base: Iterable[Measured], other: Iterable[Measured]) -> set[int]:
    """The rounds in which both arms were measured. Each argument: an arm in its cases."""
    first, second = ({record.round for each in arm for record in each.block.records} for arm in (base, other))
    return first & second


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


def rounds_seen(base: Measured, other: Measured, metric: str) -> Rounds:
    """What each round shows of each observation that both arms have in it."""
    found: dict[int, Mapping[Hashable, Seen]] = {}
    for number in sorted(rounds_of_both([base], [other])):
        left, right = logs_of_both(base, other, metric, {number: 1.0})
        portion = {asked(record): record.portion for record in other.block.records if record.round == number}
        first = {name: portion[keys[0]] for name, keys in observations(left.keys() & right.keys()).items()}
        found[number] = {name: Seen(first[name], value) for name, value in differences(left, right).items()}
    return {number: seen for number, seen in found.items() if seen}


def paired(base: Measured, other: Measured, metric: str, rounds: Weights = None) -> LogMean | None:
    """Log speed-up over the prompts that both arms completed in a round: above 0 `other` is better. None if there is
    none.

    One observation is a prompt, its rounds averaged first, or a conversation. The noise that requests of the same
    minutes share is not in it (shared_noise.py). A base that brackets `other` was beside it as in its first time, as in
    its second, or anywhere between: nobody knows when it moved. So their middle may be off by half of that.
    """
    sign = -1.0 if BY_NAME[metric].better == "lower" else 1.0
    found = [sign * each for each in differences(*logs_of_both(base, other, metric, rounds)).values()]
    if not found:
        return None
    moved = list(_moved(base, other, metric).values())
    off = abs(mean(moved)) / 2.0 if moved else 0.0
    return over_prompts(found)._replace(early=base.stopped_early or other.stopped_early, off=off)


def speedups(base: Measured, other: Measured, rounds: Weights) -> dict[str, LogMean]:
    """Log speed-up of every compared metric, the headline first."""
    return {metric: stat for metric in SPEEDUPS if (stat := paired(base, other, metric, rounds))}


def drifts(experiment: Experiment, arms: Arms, device_groups: Sequence[DeviceGroup]) -> tuple[Drift, ...]:
    """Each arm's last round over its first (A-B-A, or another device group), over all cases that both measured."""
    held_by = {(item.variant, item.round): item for item in device_groups}
    drifted: list[Drift] = []
    for variant in (variant.name for variant in experiment.variants):
        own = [arm for case in experiment.workload.cases if (arm := arms.get((variant, case.name)))]
        rounds = sorted({record.round for each in own for record in each.block.records})
        if len(rounds) < 2:
            continue
        ends = rounds[0], rounds[-1]
        logs = [(each, _logs(each, HEADLINE)) for each in own]
        moved = [(each, differences(*(_over_rounds(log, {end: 1.0}) for end in ends))) for each, log in logs]
        stats = [over_prompts([*found.values()])._replace(early=each.stopped_early) for each, found in moved if found]
        if not stats:
            continue
        total = combine(stats, [1.0 / len(stats)] * len(stats))
        low, high = total.interval() or (None, None)
        held = [held_by.get((variant, number)) for number in ends]
        elsewhere = len({frozenset(each.devices) for each in held if each}) > 1
        first, second = (
            f"round {number}"
            + (f" on {f'group {each.group}' if each.group else ', '.join(each.devices)}" if each else "")
            for number, each in zip(ends, held, strict=True)
        )
        drifted.append(
            Drift(
                variant=variant,
                cause="time and device group" if elsewhere else "time",
                first=first,
                second=second,
                ratio=total.ratio,
                low=low,
                high=high,
                shown=low is not None and high is not None and not low <= 1.0 <= high,
            )
        )
    return tuple(drifted)
