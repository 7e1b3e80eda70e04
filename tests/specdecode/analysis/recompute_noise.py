"""Noise and interpolation of recompute_load.py, by other algorithms than the product has: only the standard library."""

import math
import random
import statistics
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from recompute_intervals import central

ASSUMED, ASSUMED_DF = 0.02, 10.0


class LogGain(NamedTuple):
    """Mean log speed-up of the cases together, its squared error and degrees of freedom."""

    mean: float
    variance: float
    df: float

    def above(self) -> float:
        """Probability that it is above 0: half of what lies within, on its side."""
        t = abs(self.mean) / math.sqrt(self.variance)
        inside = central(min(t, 60.0), self.df)
        return 0.5 + math.copysign(inside / 2, self.mean)


def pooled(parts: list[list[float]]) -> LogGain:
    """Differences of each case -> the cases with equal weight (Welch and Satterthwaite)."""
    share = 1 / len(parts)
    errors = [share**2 * statistics.variance(part) / len(part) for part in parts]
    variance = sum(errors)
    df = variance**2 / sum(error**2 / (len(part) - 1) for error, part in zip(errors, parts, strict=True))
    return LogGain(share * sum(map(statistics.fmean, parts)), variance, df)


def shared_noise(loads: list[float], rounds: list[list[float]]) -> tuple[float, float, str]:
    """Variance of one round of a level, its degrees of freedom, and what shows it."""
    again = [each for each in rounds if len(each) > 1]
    if again:
        df = sum(map(len, again)) - len(again)
        return sum(statistics.variance(each) * (len(each) - 1) for each in again) / df, df, "between rounds"
    if len(loads) < 5:
        return 2 * ASSUMED**2, ASSUMED_DF, "assumed"
    values = [statistics.fmean(each) for each in rounds]
    times = [math.exp(-value) for value in values]
    fitted = parabola([load / max(loads) for load in loads], times)
    squares = sum((found / time - 1) ** 2 for time, found in zip(times, fitted, strict=True))
    return squares / (len(loads) - 3), len(loads) - 3, "around a smooth curve"


def parabola(x: list[float], y: list[float]) -> list[float]:
    """Least squares of relative errors by the normal equations and Cramer's rule."""
    powers = [sum(each**power / value**2 for each, value in zip(x, y, strict=True)) for power in range(5)]
    matrix = [powers[row : row + 3] for row in range(3)]
    right = [sum(each**power / value for each, value in zip(x, y, strict=True)) for power in range(3)]
    whole = determinant(matrix)
    found = [
        determinant([[*row[:at], value, *row[at + 1 :]] for row, value in zip(matrix, right, strict=True)]) / whole
        for at in range(3)
    ]
    return [found[0] + found[1] * each + found[2] * each**2 for each in x]


def determinant(m: list[list[float]]) -> float:
    return sum(
        m[0][i] * (m[1][(i + 1) % 3] * m[2][(i + 2) % 3] - m[1][(i + 2) % 3] * m[2][(i + 1) % 3]) for i in range(3)
    )


def student(gain: LogGain, rng: random.Random) -> float:
    """A draw of Student's t: a normal over the root of a chi-squared."""
    chi = rng.gammavariate(gain.df / 2, 2.0)
    return gain.mean + math.sqrt(gain.variance) * rng.gauss(0, 1) * math.sqrt(gain.df / chi)


def zero(lines: list[tuple[float, float, float]], gains: list[float]) -> float | None:
    """The load at which both arms take the same time per token; the base's is read off its own line."""
    slower = [
        (load, base_s * math.exp(-gain) - on_line(lines, load))
        for (load, _, base_s), gain in zip(lines, gains, strict=True)
    ]
    places = [
        left + (right - left) * above / (above - below)
        for (left, above), (right, below) in pairwise(slower)
        if (above < 0) != (below < 0)
    ]
    return (places[0] + places[-1]) / 2 if places else None


def on_line(lines: list[tuple[float, float, float]], load: float) -> float:
    """The base's time per token at a load: on the piece that holds it, beyond the ends on the nearest."""
    known = [(base_load, base_s) for _, base_load, base_s in lines]
    pieces = list(pairwise(known))
    for (left, low), (right, high) in pieces:
        if load <= right or (right, high) == known[-1]:
            return low if right == left else low + (load - left) / (right - left) * (high - low)
    raise ValueError("a curve has two loads at least")
