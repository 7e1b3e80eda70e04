"""A Gaussian process on a handful of points, in plain Python (Rasmussen & Williams 2006, algorithm 2.1)."""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

X = TypeVar("X")
Shape = Callable[[X], float]


class Posterior(NamedTuple):
    """What is believed of some points together."""

    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    evidence: float = 0.0
    """Logarithm of how much likelier the values are than without the shape."""

    def deviation(self, at: int) -> float:
        """Standard deviation of one point."""
        return math.sqrt(max(0.0, self.covariance[at][at]))


def posterior(
    covariance: Callable[[X, X], float],
    *,
    at: Sequence[X],
    seen: Sequence[X],
    values: Sequence[float],
    noise: Sequence[float],
    shapes: Iterable[Shape[X]] = (),
    size: tuple[float, float] = (0.0, 1.0),
) -> list[Posterior]:
    """The belief at `at`, given `values` at `seen` with standard errors `noise`; prior mean 0. Then the same for each
    of `shapes`, if a multiple of it is added: `size` has the multiple's mean and standard deviation (section 2.7).
    """
    lower = _cholesky(
        [
            [covariance(x, y) + (noise[i] ** 2 + 1e-12 if i == j else 0.0) for j, y in enumerate(seen)]
            for i, x in enumerate(seen)
        ]
    )
    solved = _forward(lower, values)
    explained = [_forward(lower, [covariance(x, y) for y in seen]) for x in at]
    plain = Posterior(
        tuple(_dot(own, solved) for own in explained),
        tuple(
            tuple(covariance(x, y) - _dot(own, other) for y, other in zip(at, explained, strict=True))
            for x, own in zip(at, explained, strict=True)
        ),
    )
    return [
        plain,
        *(_shaped(plain, shape, size, at, _forward(lower, [*map(shape, seen)]), solved, explained) for shape in shapes),
    ]


def _shaped(
    plain: Posterior,
    shape: Shape[X],
    size: tuple[float, float],
    at: Sequence[X],
    seen: Sequence[float],
    solved: Sequence[float],
    explained: Sequence[Sequence[float]],
) -> Posterior:
    """`plain` with a multiple of a shape. `seen`: the shape at the seen points, solved as the values are."""
    mean, deviation = size
    certain = 1.0 / deviation**2 + _dot(seen, seen)
    multiple = (mean / deviation**2 + _dot(seen, solved)) / certain
    left = [shape(x) - _dot(own, seen) for x, own in zip(at, explained, strict=True)]
    evidence = (certain * multiple**2 - (mean / deviation) ** 2 - math.log(certain * deviation**2)) / 2.0
    return Posterior(
        tuple(known + own * multiple for known, own in zip(plain.mean, left, strict=True)),
        tuple(
            tuple(known + own * other / certain for known, other in zip(row, left, strict=True))
            for row, own in zip(plain.covariance, left, strict=True)
        ),
        evidence,
    )


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(map(operator.mul, left, right))


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    n = len(matrix)
    lower = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = matrix[i][j] - math.fsum(lower[i][m] * lower[j][m] for m in range(j))
            lower[i][j] = math.sqrt(rest) if i == j else rest / lower[j][j]
    return lower


def _forward(lower: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    solved: list[float] = []
    for i, value in enumerate(values):
        solved.append((value - math.fsum(lower[i][m] * solved[m] for m in range(i))) / lower[i][i])
    return solved
