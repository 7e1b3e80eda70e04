"""Small statistics in plain Python (the bundle carries no NumPy): Student's t, intervals of ratios.

Ratios of times are compared on the log scale, where a speed-up and its inverse are mirror images and timing
noise is closer to symmetric; the interval is Student's t, which holds at small n (coverage is measured in
docs/explanation/how-sure.md). Sources: NIST/SEMATECH e-Handbook 1.3.6.7.2 (t), Numerical Recipes 6.4 (incomplete beta),
Welch 1947 / Satterthwaite 1946 (df), Hall 1992, "On the removal of skewness by transformation", J. R. Statist. Soc. B
54, 221-228 (the longer tail of prompts).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from specdecode.measures.distribution import mean, stddev

ASSUMED_DF = 10.0
"""Degrees of freedom of an assumed spread between runs: those of eleven more runs."""
WAVES_DF = 3.0
"""The same of an assumed spread between waves: few, so that the waves of a run soon count for more."""
CONFIDENCE = 0.95
"""Confidence of an interval, as reports state it."""
NOMINAL = 0.96
"""Level of the Student's t behind it, at the end of a measurement. Timing noise is not normal; if it were, 95% would
say "pays" or "costs" of two equal arms in 5% of the runs. With this level it is 4%, and at most 5% of what was
simulated (docs/explanation/how-sure.md)."""
EARLY = 0.01
"""Probability that an interval is wrong at any test before the last; with it EARLY + 1 - NOMINAL (union bound)."""
PRIOR_VARIANCE = 1.0
"""Variance of the effect's prior in tests before the last one: a mean log ratio about as large as its deviation."""


PROMPTS_FOR_SKEWNESS = 12
"""Least number of prompts from which their skewness is used: with fewer it is chance."""


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (modified Lentz)."""
    tiny = 1e-300
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 400):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            delta = d * c
            result *= delta
        if abs(delta - 1.0) < 1e-14:
            break
    return result


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularized incomplete beta I_x(a, b)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


def t_cdf(t: float, df: float) -> float:
    """P(T <= t) of Student's t with df degrees of freedom (df may be fractional)."""
    tail = 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t))
    return 1.0 - tail if t > 0 else tail


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """Quantile p (0.5 <= p < 1) of Student's t, exact to ~1e-10. Newton's method from the normal quantile, which is
    never larger: the distribution function is concave above 0, so that each step comes nearer from below.
    """
    if not 0.5 <= p < 1.0:
        raise ValueError(f"p must be in [0.5, 1): {p}")
    scale = math.exp(math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0)) / math.sqrt(df * math.pi)
    found = NormalDist().inv_cdf(p)
    for _ in range(200):
        step = (p - t_cdf(found, df)) / (scale * (1.0 + found * found / df) ** (-(df + 1.0) / 2.0))
        if step < 1e-12 * max(1.0, found):
            break
        found += step
    return found


class LogMean(NamedTuple):
    """A mean on the log scale with its squared standard error and degrees of freedom (0: no interval)."""

    mean: float
    variance: float
    df: float
    n: int
    early: bool = False
    """True if measuring ended early: the interval then holds at every test."""
    skew: float = 0.0
    """Skewness of the values, if the interval should use it, else 0."""
    off: float = 0.0
    """By how much the mean may be off, either way, besides its error, at NOMINAL: what its waves may differ by. Means
    that share it are all off at once, so it does not average out."""

    def interval(self, confidence: float = NOMINAL) -> tuple[float, float] | None:
        """The ratio's confidence interval, or None if n is too small for one."""
        if self.df <= 0:
            return None
        wrong = min(EARLY, 1.0 - confidence)
        t = anytime_errors(self.n, self.df, wrong) if self.early else t_quantile(0.5 + confidence / 2.0, self.df)
        if math.isinf(t):
            return None
        error = math.sqrt(self.variance)
        below, above = max(t, self._unskewed(t)), max(t, -self._unskewed(-t))
        off = off_at(self.off, confidence)
        return _exp(self.mean - below * error - off), _exp(self.mean + above * error + off)

    def _unskewed(self, t: float) -> float:
        """`t` as a quantile of the mean's own distribution: the inverse of Hall's cubic transformation. Where a few
        prompts gain far more than the others, the sample seldom holds enough of them, and Student's t is too short on
        their side. It is never made shorter on the other.
        """
        if not self.skew or self.n < PROMPTS_FOR_SKEWNESS:
            return t
        root = math.sqrt(self.n)
        cube = 1.0 + self.skew / root * (t - self.skew / (6.0 * root))
        return 3.0 * root / self.skew * (math.copysign(abs(cube) ** (1.0 / 3.0), cube) - 1.0)

    @property
    def ratio(self) -> float:
        """The point estimate: a geometric mean of ratios."""
        return _exp(self.mean)


def off_at(off: float, confidence: float) -> float:
    """What a mean may be off by at another level than NOMINAL."""
    return (
        off * t_quantile(0.5 + confidence / 2.0, WAVES_DF) / t_quantile(0.5 + NOMINAL / 2.0, WAVES_DF) if off else off
    )


def anytime_errors(n: int, df: float, wrong: float = EARLY) -> float:
    """Half the width, in standard errors, of the interval after `n` values that holds however often one tests.

    It contains each mean against which the Bayes factor of the t test stays below 1 / `wrong`. The prior of the effect
    (mean over standard deviation) is normal with mean 0 and variance 1. Under the null the factor is a martingale, so
    that it ever reaches 1 / `wrong` with a probability of `wrong` at most (Ville). Infinite where n is too small.

    Sources: Gonen et al. 2005, The American Statistician 59(3), for the factor; Hendriksen, de Heide & Grunwald 2021,
    Bayesian Analysis 16(3), and Wang & Ramdas 2025, Sequential Analysis 44(1), for testing it at any time.
    """
    widening = 1.0 + n * PRIOR_VARIANCE
    most = (widening / wrong**2) ** (1.0 / (df + 1.0))
    if most >= widening:
        return math.inf
    return math.sqrt(df * (most - 1.0) / (1.0 - most / widening))


def _exp(x: float) -> float:
    """E to the x, limited to 1e-130 .. 1e130: a value beyond is no ratio of anything, and must not overflow."""
    return math.exp(max(-300.0, min(300.0, x)))


def log_mean(values: Sequence[float]) -> LogMean:
    """Mean of log-ratios with Student's t, n-1 degrees of freedom."""
    n = len(values)
    return LogMean(mean(values), stddev(values) ** 2 / n, float(n - 1), n)


def over_prompts(values: Sequence[float]) -> LogMean:
    """Mean of log-ratios, one a prompt, with their skewness (adjusted Fisher-Pearson)."""
    found, n = log_mean(values), len(values)
    deviation = stddev(values)
    if n < PROMPTS_FOR_SKEWNESS or deviation == 0.0:
        return found
    cubes = math.fsum(((value - found.mean) / deviation) ** 3 for value in values)
    return found._replace(skew=n / ((n - 1.0) * (n - 2.0)) * cubes)


def welch_log_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> LogMean:
    """Ln of the ratio of geometric means of two unpaired samples (Welch's t on the log scale)."""
    a, b = log_mean([math.log(value) for value in numerator]), log_mean([math.log(value) for value in denominator])
    return combine((a, b), (1.0, -1.0))


def combine(parts: Sequence[LogMean], weights: Sequence[float]) -> LogMean:
    """The weighted sum of independent log means, with Satterthwaite's degrees of freedom; of what each may be off."""
    variance = math.fsum(w * w * part.variance for part, w in zip(parts, weights, strict=True))
    centre = math.fsum(w * part.mean for part, w in zip(parts, weights, strict=True))
    n = sum(part.n for part in parts)
    early = any(part.early for part in parts)
    off = math.fsum(abs(w) * part.off for part, w in zip(parts, weights, strict=True))
    if any(part.df <= 0 for part in parts):
        return LogMean(centre, variance, 0.0, n)
    if variance == 0.0:
        return LogMean(centre, 0.0, math.fsum(part.df for part in parts), n, early, off=off)
    spread = math.fsum((w * w * part.variance) ** 2 / part.df for part, w in zip(parts, weights, strict=True))
    return LogMean(centre, variance, variance * variance / spread, n, early, off=off)


def with_shared(found: LogMean, shared: LogMean) -> LogMean:
    """`found` with a noise of mean 0 that all its values share, and that their spread does not show. Unchanged if it
    has no interval. If measuring ended early, the variance is the one that gives the same interval at the end. The sum
    keeps the third cumulant of the values.
    """
    own = found
    if found.early and found.df > 0:
        wider = anytime_errors(found.n, found.df) / t_quantile(0.5 + NOMINAL / 2.0, found.df)
        own = found._replace(variance=found.variance * wider**2, early=False)
    if own.df <= 0 or not math.isfinite(own.variance):
        return found
    both = combine((own, shared), (1.0, 1.0))
    share = own.variance / both.variance if both.variance else 1.0
    return both._replace(skew=own.skew * share**1.5)


def moderated(sides: Sequence[Sequence[LogMean]], *, assumed: float) -> LogMean:
    """The mean of one side's runs, or of the second side's over the first's, with what varies between runs in it.
    `assumed`: standard deviation between runs, as a share, which counts as ASSUMED_DF degrees of freedom and gives way
    to what the runs show: s² = (d0·s0² + d·s²) / (d0 + d), the moderated variance of Smyth 2004 ("Linear models and
    empirical Bayes methods for assessing differential expression in microarray experiments", section 3), with d0 + d
    degrees of freedom. s0² is the assumed spread squared plus what the requests of a run vary by.
    """
    every = [run for side in sides for run in side]
    within = mean([run.variance for run in every])
    prior = combine(
        (LogMean(0.0, assumed**2, ASSUMED_DF, 0), LogMean(0.0, within, math.fsum(run.df for run in every), 0)),
        (1.0, 1.0),
    )
    seen = math.fsum(stddev([run.mean for run in side]) ** 2 * (len(side) - 1) for side in sides)
    df = prior.df + len(every) - len(sides)
    variance = (prior.df * prior.variance + seen) / df if df else 0.0
    centres = [mean([run.mean for run in side]) for side in sides]
    return LogMean(
        centres[-1] - (centres[0] if len(sides) > 1 else 0.0),
        variance * math.fsum(1.0 / len(side) for side in sides),
        df,
        len(every),
        off=math.fsum(mean([run.off for run in side]) for side in sides),
    )
