"""A Gaussian process on a handful of points, in plain Python (Rasmussen & Williams 2006, algorithm 2.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

X = TypeVar("X")


def posterior(
    covariance: Callable[[X, X], float],
    *,
    at: Sequence[X],
    seen: Sequence[X],
    values: Sequence[float],
    noise: Sequence[float],
) -> list[tuple[float, float]]:
    """Mean and standard deviation at `at`, given `values` at `seen` with standard errors `noise`; prior mean 0."""
    if not seen:
        return [(0.0, math.sqrt(covariance(x, x))) for x in at]
    lower = _cholesky(
        [
            [covariance(x, y) + (noise[i] ** 2 + 1e-12 if i == j else 0.0) for j, y in enumerate(seen)]
            for i, x in enumerate(seen)
        ]
    )
    solved = _forward(lower, values)
    found: list[tuple[float, float]] = []
    for x in at:
        explained = _forward(lower, [covariance(x, y) for y in seen])
        mean = math.fsum(a * b for a, b in zip(explained, solved, strict=True))
        variance = covariance(x, x) - math.fsum(value * value for value in explained)
        found.append((mean, math.sqrt(max(0.0, variance))))
    return found


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
