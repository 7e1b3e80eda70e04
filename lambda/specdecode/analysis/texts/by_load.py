"""A curve over the load, in words."""

import math
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence

from specdecode.analysis.loads.objective import doubted, listed
from specdecode.analysis.results.over_load import Crossover, Curve, LoadPoint, Objective
from specdecode.analysis.results.pairs import Action, ArmFinding, Verdict
from specdecode.experiment.workload import Level

SIGNIFICANT = 0.025
"""Probability on each side below which chance alone does not explain two shares (Fisher's exact test)."""
SIDES = {Verdict.PAYS: 1, Verdict.COSTS: -1}
SURE = (*SIDES, Verdict.NO_DIFFERENCE)
LOST = "too many requests failed, or none was compared"


def advice_by_load(curve: Curve, objectives: Sequence[Objective], found: Mapping[str, ArmFinding]) -> str:
    """`Speculate below 6 requests at a time, not above (95% CI 5 to 7). At your SLO …`. `found`: load -> what the
    decision has there of these arms.
    """
    verdicts = verdicts_of(curve, found)
    advised = all(each.action is Action.USE for each in found.values() if each.verdict is Verdict.PAYS)
    said = _where(curve, verdicts, speculate=curve.of_speculation and advised)
    parts = [said, *_server(curve, verdicts), _objective(curve, objectives)]
    if doubtful := [point.level for point in curve.points if point.doubtful]:
        parts.append(f"The load generator fell behind at {listed(doubtful)}: doubtful.")
    if curve.left_out:
        parts.append(f"That is without {', '.join(curve.left_out)}, which could not be compared at every load.")
    if curve.without:
        verb = "has" if len(curve.without) == 1 else "have"
        parts.append(f"{listed(curve.without)} {verb} no speed-up: {LOST}.")
    return " ".join(part for part in parts if part)


def without_a_curve(levels: Sequence[Level]) -> str:
    """Text for a run at several loads, if fewer than two of them could be compared."""
    return f"Nothing is known over the load: at fewer than two of {listed(levels)} there is a speed-up ({LOST})."


def verdicts_of(curve: Curve, found: Mapping[str, ArmFinding]) -> dict[Level, Verdict]:
    """The decision's verdict at each load of a curve."""
    at = {point.level: found.get(point.level.name) for point in curve.points}
    return {level: own.verdict if own else Verdict.CANNOT_TELL for level, own in at.items()}


def _where(curve: Curve, verdicts: Mapping[Level, Verdict], *, speculate: bool) -> str:
    """`speculate`: speculation is what is advised; else the words name the arms."""
    arm, last = f"{curve.variant} is faster than {curve.baseline}", curve.points[-1].level
    every = "load that could be compared" if curve.without else "load measured"
    faster, slower, same, unsure = (
        [level for level, own in verdicts.items() if own in which]
        for which in ({Verdict.PAYS}, {Verdict.COSTS}, {Verdict.NO_DIFFERENCE}, {*Verdict} - set(SURE))
    )
    if len(curve.crossovers) == 1 and faster:
        (found,) = curve.crossovers
        first, second = ("below", "above") if found.direction == "stops" else ("above", "below")
        what = "Speculate" if speculate else arm
        return f"{what} {first} {_load(curve, found)}, not {second}{_beside(curve, verdicts)}."
    if curve.crossovers and faster:
        places = "; ".join(f"it {found.direction} paying at {_load(curve, found)}" for found in curve.crossovers)
        what = "Whether to speculate" if speculate else f"Whether {arm}"
        return f"{what} changes with the load more than once: {places}."
    if len(faster) == len(verdicts):
        what = f"Speculate at every {every}: it is faster at each" if speculate else f"{arm} at every {every}"
        return f"{what}, and no crossover is there up to {last}."
    if len(slower) == len(verdicts):
        what = f"{curve.variant} is slower than {curve.baseline} at every {every}"
        if speculate:
            what = f"Do not speculate at any {every}: it is slower at each"
        return f"{what}, up to {last}."
    what = "Speculation" if speculate else curve.variant
    if len(unsure) == len(verdicts):
        return f"{what} is not shown to be faster or slower at any load up to {last}, over all prompts together."
    said = (("is faster", faster), ("is slower", slower), ("makes no relevant difference", same))
    known = [f"{word} at {listed(levels)}" for word, levels in said if levels]
    rest = f"; at {listed(unsure)} that is not known" if unsure else ""
    none = "" if curve.crossovers else f" No crossover is shown up to {last}."
    return f"{what} {' and '.join(known)}{rest}.{none}"


def _beside(curve: Curve, verdicts: Mapping[Level, Verdict]) -> str:
    """`; at 32 at a time neither arm is shown to be faster`: such loads on one side of the crossover, and those at
    which it makes no relevant difference.
    """
    sides = [SIDES.get(own, 0) for own in verdicts.values()]
    known = [number for number, each in enumerate(sides) if each]
    unsure, same = [], [level for level, own in verdicts.items() if own is Verdict.NO_DIFFERENCE]
    for number, point in enumerate(curve.points):
        after = bisect(known, number)
        alike = len({sides[n] for n in known[max(0, after - 1) : after + 1]}) < 2
        if verdicts[point.level] not in SURE and not point.doubtful and alike:
            unsure.append(point.level)
    said = ((same, "it makes no relevant difference"), (unsure, "neither arm is shown to be faster"))
    return "".join(f"; at {listed(levels)} {what}" for levels, what in said if levels)


def _server(curve: Curve, verdicts: Mapping[Level, Verdict]) -> Iterator[str]:
    """Loads at which a request and the whole server do not gain alike."""
    for of_request, faster, fewer in ((1, "faster", "fewer"), (-1, "slower", "more")):
        found = {
            point.level: f"{ratio:.2f}×"
            for point in curve.points
            if SIDES.get(verdicts[point.level]) == of_request and (ratio := _server_gain(point, -of_request))
        }
        if found:
            yield (
                f"At {listed([*found])} a request is {faster}, but the server as a whole writes {fewer} tokens a "
                f"second with {curve.variant} ({', '.join(found.values())})."
            )


def _server_gain(point: LoadPoint, to: int) -> float | None:
    """Output tokens a second of the whole server, arm / baseline, if it is faster (`to` 1) or slower (-1). Else None.

    There is one value at each load. Its interval is assumed to be as wide as that of the requests' speed-up: both have
    the noise of the same minutes.
    """
    base, other, gain = point.base.output_throughput, point.other.output_throughput, point.speedup
    if not base or not other or gain.low is None or gain.high is None:
        return None
    ratio = other / base
    shown = ratio * gain.low > gain.ratio if to > 0 else ratio * gain.high < gain.ratio
    return ratio if shown else None


def _load(curve: Curve, found: Crossover) -> str:
    ends = f"95% CI {rounded(found.low)} to {rounded(found.high)}, which were measured"
    return f"{rounded(found.load)} {curve.points[0].level.unit} ({ends})"


def rounded(load: float) -> str:
    """Two significant digits; a whole number from 10 on."""
    return f"{load:.0f}" if load >= 10 else f"{load:.2g}"


def _objective(curve: Curve, objectives: Sequence[Objective]) -> str:
    """Which of the measured loads each arm carries within the service-level objective."""
    arms = {each.variant: each for each in objectives}
    if not {curve.variant, curve.baseline} <= arms.keys():
        return ""
    one, other = arms[curve.variant], arms[curve.baseline]
    late = sorted({*doubted(one), *doubted(other)}, key=lambda level: level.value)
    doubt = f" (the load generator was late in some requests at {listed(late)})" if late else ""
    said = f"{curve.variant} carries {one.keeps or 'none'} and {curve.baseline} {other.keeps or 'none'}"
    said += f", of the loads measured{_unsure(one, other)}"
    if one.keeps == other.keeps:
        said = f"both carry {one.keeps}, of the loads measured"
        if not one.keeps:
            said = "neither arm carries even the smallest load measured"
    return f"At your SLO {said}{doubt}."


def _unsure(*arms: Objective) -> str:
    """`; that they differ is not shown (…)`: compares the arms at the first load that one of them does not carry."""
    less = min(arm.keeps.value if arm.keeps else 0.0 for arm in arms)
    one, other = (next((at for at in arm.loads if at.level.value > less), None) for arm in arms)
    if not one or not other or one.level != other.level:
        return ""
    good = " and ".join(f"{at.good} of {at.requests}" for at in (one, other))
    shown = shares_differ(one.good, one.requests, other.good, other.requests)
    return "" if shown else f"; that they differ is not shown ({good} good at {one.level})"


def shares_differ(good: int, of: int, other_good: int, other_of: int) -> bool:
    """Whether chance alone splits so unevenly in less than 2.5% of the cases, on each side (Fisher's exact test)."""
    if good * other_of < other_good * of:
        good, of, other_good, other_of = other_good, other_of, good, of
    whole = good + other_good
    ways = _log_ways(of + other_of, whole)
    counts = range(good, min(of, whole) + 1)
    return math.fsum(math.exp(_log_ways(of, n) + _log_ways(other_of, whole - n) - ways) for n in counts) < SIGNIFICANT


def _log_ways(of: int, chosen: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)
