"""Intervals of recompute.py, by other algorithms than the product has: only the standard library."""

import math
import statistics
from functools import cache


def central(t: float, df: float) -> float:
    """Share of Student's t within plus and minus `t`: Simpson's rule on its density."""
    norm = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    n = 4000
    heights = [(1 + (i * t / n) ** 2 / df) ** (-(df + 1) / 2) for i in range(n + 1)]
    inner = sum((4 if i % 2 else 2) * height for i, height in enumerate(heights[1:-1], start=1))
    return 2 * norm * t / n / 3 * (heights[0] + inner + heights[-1])


@cache
def t_quantile(df: float, level: float) -> float:
    """Half-width in standard errors of an interval of Student's t, by bisection."""
    low, high = 1.0, 100.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle, df) < level else (low, middle)
    return low


def bounds(mean: float, variance: float, df: float, level: float = 0.96) -> tuple[float, float, float]:
    half = t_quantile(df, level) * math.sqrt(variance)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def hall(values: list[float], t: float, share: float = 1.0) -> tuple[float, float]:
    """How many standard errors the interval reaches below and above, from 12 prompts on: Hall (1992), by bisection."""
    n, mean, deviation = len(values), statistics.fmean(values), statistics.stdev(values)
    skew = n / ((n - 1) * (n - 2)) * sum(((v - mean) / deviation) ** 3 for v in values) if n > 2 and deviation else 0.0
    skew *= share

    def g(x: float) -> float:
        return x + skew / math.sqrt(n) * (x * x / 3 + 1 / 6) + skew**2 * x**3 / 27 / n

    def solve(y: float) -> float:
        low, high = -1e6, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if g(middle) < y else (low, middle)
        return low

    return (max(t, solve(t)), max(t, -solve(-t))) if n >= 12 else (t, t)


Noise = tuple[float, float]
"""A variance and its degrees of freedom."""
NODE: Noise = (0.05**2 / 4, 10)
"""What another node is assumed to add: half of 5%, as ten degrees of freedom."""


def over_prompts(values: list[float], *more: Noise, level: float = 0.96) -> tuple[float, float, float]:
    """`more`: noise that the spread of the values does not show."""
    n, mean = len(values), statistics.fmean(values)
    own = statistics.variance(values) / n
    variance, df = plus((own, n - 1), *more)
    below, above = hall(values, t_quantile(df, level), (own / variance) ** 1.5)
    error = math.sqrt(variance)
    return math.exp(mean), math.exp(mean - below * error), math.exp(mean + above * error)


def plus(own: Noise, *more: Noise) -> Noise:
    """The sum, with Satterthwaite's degrees of freedom."""
    variance = own[0] + sum(each for each, _ in more)
    return variance, variance**2 / sum(each**2 / df for each, df in (own, *more)) if variance else own[1]


Cell = tuple[int, int, int]
"""Round, portion, observation."""


def shared(cases: dict[str, dict[Cell, float]], *, swapped: bool) -> dict[str, Noise]:
    """What requests of the same minutes share, for each case's mean: from its log speed-ups by cell. `swapped`: what a
    round does to all cases comes from the devices, and cancels.
    """
    found: dict[str, tuple[float, float, float, dict[int, float], int]] = {}
    for name, cells in cases.items():
        rounds = sorted({r for r, _, _ in cells})
        there = set.intersection(*({o for r, _, o in cells if r == number} for number in rounds)) if rounds else set()
        if len(there) < 2:
            continue
        own = {o: statistics.fmean(v for (_, _, other), v in cells.items() if other == o) for o in there}
        left = {c: v - (own[c[2]] if len(rounds) > 1 else 0.0) for c, v in cells.items() if c[2] in there}
        means = {r: statistics.fmean(v for c, v in left.items() if c[0] == r) for r in rounds}
        order = {r: sorted({c[1] for c in left if c[0] == r}) for r in rounds}

        def spread(parts: dict[object, list[float]]) -> tuple[float, int]:
            squares = sum((v - statistics.fmean(each)) ** 2 for each in parts.values() for v in each)
            return squares, sum(len(each) - 1 for each in parts.values())

        def by(key: object, left: dict[Cell, float] = left) -> dict[object, list[float]]:
            parts: dict[object, list[float]] = {}
            for cell, value in left.items():
                parts.setdefault(key(cell), []).append(value)
            return parts

        scale = max(1, len(rounds) - 1) / len(rounds)
        whole = spread(by(lambda c: c[0]))
        portions = spread(by(lambda c: c[:2]))
        pairs = spread(by(lambda c, order=order: (c[0], order[c[0]].index(c[1]) // 2)))
        within = portions if portions[1] else whole
        found[name] = (
            within[0] / within[1] / scale,
            whole[0] - pairs[0],
            (whole[1] - pairs[1]) * scale,
            means,
            len(there),
        )
    most = max((len(means) for *_, means, _ in found.values()), default=0)
    crossed = [name for name, (*_, means, _) in found.items() if len(means) == most]
    between = {}
    for name, (_, squares, df, means, n) in found.items():
        if most > 1 and name in crossed and not swapped:
            squares, df = squares + n * sum(mean**2 for mean in means.values()), df + most - 1
        elif most > 1 and len(crossed) > 1 and name in crossed:
            common = {r: statistics.fmean(found[each][3][r] for each in crossed) for r in means}
            squares += n * sum((means[r] - common[r]) ** 2 for r in means) * len(crossed) / (len(crossed) - 1)
            df += most - 1
        if df:
            between[name] = squares / df, df
    if not between:
        return dict.fromkeys(cases, (0.0, 1.0))
    typical = 3 * statistics.median(found[name][0] for name in between)
    weight = {name: 1 / (found[name][0] + typical) ** 2 for name in between if found[name][0] + typical}
    if not weight:
        return dict.fromkeys(cases, (0.0, 1.0))
    excess = sum(w * (between[name][0] - found[name][0]) for name, w in weight.items()) / sum(weight.values())
    top, bottom = (
        sum((w * between[name][0]) ** power / between[name][1] ** (power - 1) for name, w in weight.items())
        for power in (1, 2)
    )
    df = max(1.0, top**2 / bottom) if bottom else 1.0
    return {name: (max(0.0, excess) / max(1, len(cells)), df) for name, cells in cases.items()}
