"""A curve over the load, in words."""

import math
from collections.abc import Sequence

from specdecode.analysis.loads.objective import doubted, listed
from specdecode.analysis.results.over_load import Crossover, Curve, LoadPoint, Objective
from specdecode.experiment.workload import Level

SIGNIFICANT = 0.025
"""Probability on each side below which chance alone does not explain two shares (Fisher's exact test)."""


def advice_by_load(curve: Curve, objectives: Sequence[Objective]) -> str:
    """`Speculate below 6 requests at a time, not above (95% CI 5 to 7). At your SLO …`."""
    parts = [_where(curve), _server(curve), _objective(curve, objectives), _doubts(curve)]
    return " ".join(part for part in parts if part)


def without_a_curve(levels: Sequence[Level]) -> str:
    """Text for a run at several loads, if fewer than two of them could be compared."""
    lost = "too many requests failed, or none was compared"
    return f"Nothing is known over the load: at fewer than two of {listed(levels)} there is a speed-up ({lost})."


def _where(curve: Curve) -> str:
    arms = f"{curve.variant} is {{}} than {curve.baseline}"
    if len(curve.crossovers) == 1:
        found = curve.crossovers[0]
        first, second = ("below", "above") if found.direction == "stops" else ("above", "below")
        what = "Speculate" if curve.of_speculation else arms.format("faster")
        return f"{what} {first} {_load(curve, found)}, not {second}.{_beside(curve)}"
    if curve.crossovers:
        places = "; ".join(f"it {found.direction} paying at {_load(curve, found)}" for found in curve.crossovers)
        what = "Whether to speculate" if curve.of_speculation else f"Whether {arms.format('faster')}"
        return f"{what} changes with the load more than once: {places}."
    last, every = curve.points[-1].level, "load that could be compared" if curve.without else "load measured"
    shown = [side(point) for point in curve.points]
    if all(each > 0 for each in shown):
        if not curve.of_speculation:
            return f"{arms.format('faster')} at every {every}, and no crossover is there up to {last}."
        return f"Speculate at every {every}: it is faster at each, and no crossover is there up to {last}."
    if all(each < 0 for each in shown):
        if not curve.of_speculation:
            return f"{arms.format('slower')} at every {every}, up to {last}."
        return f"Do not speculate at any {every}: it is slower at each, up to {last}."
    faster = [point.level for point, each in zip(curve.points, shown, strict=True) if each > 0]
    slower = [point.level for point, each in zip(curve.points, shown, strict=True) if each < 0]
    known = [f"{word} at {listed(levels)}" for word, levels in (("faster", faster), ("slower", slower)) if levels]
    open_at = [point.level for point, each in zip(curve.points, shown, strict=True) if not each]
    what = "Speculation" if curve.of_speculation else curve.variant
    if not known:
        return f"{what} is not shown to be faster or slower at any load up to {last}, over all prompts together."
    rest = f"; at {listed(open_at)} that is not known" if open_at else ""
    return f"{what} is {' and '.join(known)}{rest}. No crossover is shown up to {last}."


def _beside(curve: Curve) -> str:
    """` At 32 at a time neither arm is shown to be faster.`: such loads on one side of the crossover."""
    sides = [side(point) for point in curve.points]
    known = [number for number, each in enumerate(sides) if each]
    unsure = [
        point.level
        for number, point in enumerate(curve.points)
        if not sides[number]
        and not point.doubtful
        and len({sides[each] for each in (*_last(known, number), *_next(known, number))}) < 2
    ]
    return f" At {listed(unsure)} neither arm is shown to be faster." if unsure else ""


def _last(known: Sequence[int], number: int) -> list[int]:
    return [each for each in known if each < number][-1:]


def _next(known: Sequence[int], number: int) -> list[int]:
    return [each for each in known if each > number][:1]


def side(point: LoadPoint) -> int:
    """1 if the arm is faster, -1 if it is slower, 0 if neither is shown or the load is doubtful."""
    low, high = point.speedup.low, point.speedup.high
    if point.doubtful:
        return 0
    return 1 if low is not None and low > 1.0 else -1 if high is not None and high < 1.0 else 0


def _server(curve: Curve) -> str:
    """Loads at which a request and the whole server do not gain alike. Empty if there is none."""
    said = []
    for of_request, faster, fewer in ((1, "faster", "fewer"), (-1, "slower", "more")):
        found = [point for point in curve.points if side(point) == of_request and _server_side(point) == -of_request]
        if found:
            ratios = ", ".join(f"{_server_ratio(point):.2f}×" for point in found)
            said.append(
                f"At {listed([point.level for point in found])} a request is {faster}, but the server as a whole "
                f"writes {fewer} tokens a second with {curve.variant} ({ratios})."
            )
    return " ".join(said)


def _server_ratio(point: LoadPoint) -> float:
    """Output tokens a second of the whole server, arm / baseline. 1 if one of them is not known."""
    base, other = point.base.output_throughput, point.other.output_throughput
    return other / base if base and other else 1.0


def _server_side(point: LoadPoint) -> int:
    """1 if the whole server is faster, -1 if it is slower, 0 if neither is shown.

    There is one value at each load. Its interval is assumed to be as wide as that of the requests' speed-up: both have
    the noise of the same minutes.
    """
    gain, ratio = point.speedup, _server_ratio(point)
    if gain.low is None or gain.high is None:
        return 0
    return 1 if ratio * gain.low > gain.ratio else -1 if ratio * gain.high < gain.ratio else 0


def _load(curve: Curve, found: Crossover) -> str:
    unit = "requests a second" if curve.points[0].level.rate is not None else "requests at a time"
    return f"{rounded(found.load)} {unit} (95% CI {rounded(found.low)} to {rounded(found.high)}, which were measured)"


def rounded(load: float) -> str:
    """Two significant digits; a whole number from 10 on."""
    return f"{load:.0f}" if load >= 10 else f"{load:.2g}"


def _objective(curve: Curve, objectives: Sequence[Objective]) -> str:
    """Which of the measured loads each arm carries within the service-level objective."""
    keeps = {each.variant: each.keeps for each in objectives}
    if curve.variant not in keeps or curve.baseline not in keeps:
        return ""
    first, second = keeps[curve.variant], keeps[curve.baseline]
    if first == second:
        both = (
            f"both carry {first}, of the loads measured"
            if first
            else "neither arm carries even the smallest load measured"
        )
        return f"At your SLO {both}{_doubted(curve, objectives)}."
    arms = f"{curve.variant} carries {first or 'none'} and {curve.baseline} {second or 'none'}"
    unsure = _unsure(curve, objectives)
    return f"At your SLO {arms}, of the loads measured{unsure}{_doubted(curve, objectives)}."


def _doubted(curve: Curve, objectives: Sequence[Objective]) -> str:
    """` (the load generator was late in some requests at 8 at a time)`, of the loads that tell what is carried."""
    arms = (each for each in objectives if each.variant in (curve.variant, curve.baseline))
    found = sorted({level for arm in arms for level in doubted(arm)}, key=lambda level: level.value)
    return f" (the load generator was late in some requests at {listed(found)})" if found else ""


def _unsure(curve: Curve, objectives: Sequence[Objective]) -> str:
    """`; that they differ is not shown (…)`: compares the arms at the first load that one of them does not carry."""
    arms = [next(each for each in objectives if each.variant == name) for name in (curve.variant, curve.baseline)]
    less = min(arm.keeps.value if arm.keeps else 0.0 for arm in arms)
    both = [next((at for at in arm.loads if at.level.value > less), None) for arm in arms]
    one, other = both
    if (
        not one
        or not other
        or one.level != other.level
        or shares_differ(one.good, one.requests, other.good, other.requests)
    ):
        return ""
    good = " and ".join(f"{at.good} of {at.requests}" for at in (one, other))
    return f"; that they differ is not shown ({good} good at {one.level})"


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


def _doubts(curve: Curve) -> str:
    doubtful = [point.level for point in curve.points if point.doubtful]
    said = f"The load generator fell behind at {listed(doubtful)}: doubtful." if doubtful else ""
    if curve.without:
        verb = "has" if len(curve.without) == 1 else "have"
        said += f" {listed(curve.without)} {verb} no speed-up: too many requests failed, or none was compared."
    return said.strip()
