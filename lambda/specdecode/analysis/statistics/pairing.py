"""Speed-ups of one arm over another, paired by prompt, on the log scale; or of an arm's last round over its first."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise

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
from specdecode.measures.student import NOMINAL, WAVES_DF, LogMean, combine, over_prompts, t_quantile

METHOD = (
    "Student's t on the log-ratio of paired prompts (rounds averaged; from 12 prompts on, their skewness too), with "
    "the noise that requests of the same minutes share"
)
ONE_PROMPT = METHOD.replace("paired prompts", "paired requests of one prompt").replace("12 prompts", "12")
STOPPED_EARLY = (
    "anytime-valid t interval on the log-ratio of paired prompts (rounds averaged), with the noise that requests of "
    "the same minutes share"
)
WAVES_DIFFER = 0.025
"""What the waves of a node are assumed to differ by (standard deviation of the logarithm of a speed), with the weight
of WAVES_DF more of them. Nobody has measured it on Trainium2 (docs/explanation/how-sure.md)."""
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


def paired(base: Measured, other: Measured, metric: str, reach: float, rounds: Weights = None) -> LogMean | None:
    """Log speed-up over the prompts that both arms completed in a round: above 0 `other` is better. None if there is
    none.

    One observation is a prompt, its rounds averaged first, or a conversation. The noise that requests of the same
    minutes share is not in it (shared_noise.py). `reach`: of a wave (`wave_reach`); 0: only the mean is asked for.
    """
    sign = -1.0 if BY_NAME[metric].better == "lower" else 1.0
    found = [sign * each for each in differences(*logs_of_both(base, other, metric, rounds)).values()]
    if not found:
        return None
    off = reach * math.sqrt(waves_between(base, other)) if reach else 0.0
    return over_prompts(found)._replace(early=base.stopped_early or other.stopped_early, off=off)


def waves_between(base: Measured, other: Measured) -> float:
    """How many times the variance of a wave is in the ratio of two arms: 0 if they were on the node together, 2 if one
    was after the other, 1.5 if the base was before and after.
    """
    if brackets(base, other):
        return 1.5
    sessions = [{(record.round, record.session) for record in each.block.records} for each in (base, other)]
    rounds, together = rounds_of_both([base], [other]), {number for number, _ in sessions[0] & sessions[1]}
    return 2.0 * len(rounds - together) / len(rounds) ** 2 if rounds else 0.0


def wave_reach(arms: Arms, pairs: Iterable[tuple[Measured, Measured]], metric: str) -> float:
    """How far a wave may be off, all its requests at once: Student's t at NOMINAL times a standard deviation. That is
    WAVES_DIFFER, and gives way to what the arms moved by from one round to the next (as `student.moderated`). 0 if all
    of these pairs were on the node together.
    """
    if not any(waves_between(*pair) for pair in pairs):
        return 0.0
    moves = []
    twice = {name: sorted(each.terms.spans) for (name, _), each in arms.items() if len(each.terms.spans) > 1}
    for name, rounds in twice.items():
        cases = [_logs(each, metric) for (variant, _), each in arms.items() if variant == name]
        for before, after in pairwise(rounds):
            found = [differences(*(_over_rounds(logs, {end: 1.0}) for end in (before, after))) for logs in cases]
            moves += [mean(of_cases)] if (of_cases := [mean([*each.values()]) for each in found if each]) else []
    seen = math.fsum(moved**2 / 2.0 for moved in moves)
    df = WAVES_DF + len(moves)
    return t_quantile(0.5 + NOMINAL / 2.0, df) * math.sqrt((WAVES_DF * WAVES_DIFFER**2 + seen) / df)


def speedups(base: Measured, other: Measured, rounds: Weights, reach: Mapping[str, float]) -> dict[str, LogMean]:
    """Log speed-up of every compared metric, the headline first. `reach`: of a wave, by metric."""
    return {metric: stat for metric in SPEEDUPS if (stat := paired(base, other, metric, reach[metric], rounds))}


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
