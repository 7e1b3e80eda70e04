"""The card of step costs: how long a step with k drafts takes beside a plain step, told from what others measured.

`extra` = ratio of the two steps - 1; ratio = tokens per step / speed-up of decoding. Its logarithm is a Gaussian
process: the mean grows with k^0.6, and steps are alike if engine, way of drafting, sizes of the models, tensor
parallelism and load are. So a new pair gets what similar ones cost, the wider the less alike they are, and own runs
narrow it. Leave-one-out over the evidence holds the widths (tests/specdecode/speculation/test_step_cost.py).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from typing import Annotated, NamedTuple, TypeVar

import yaml
from pydantic import Field, StringConstraints

from specdecode.assets import assets_dir
from specdecode.experiment.base import MOST_DRAFTED, Frozen
from specdecode.experiment.model import Experiment
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.step import kind_of_engine
from specdecode.experiment.variants import Method, Variant
from specdecode.experiment.workload import Level

AT_ONE, GROWTH = 0.4, 0.6
"""Mean of extra: AT_ONE k^GROWTH. Between the two rows that are known best (0.40 at k=1, 0.96 at k=3)."""
COMMON, OF_ENGINE, OF_DRAFTING, OF_SIZES, OF_PAIR = 0.3, 0.3, 0.5, 0.4, 0.25
"""Standard deviations of log extra that all steps share, those of one engine, of one way of drafting on it, of models
of like size there, and of one pair of models."""
SLOPE, SLOPE_OF_PAIR, MIDDLE = 0.2, 0.15, 4.0
"""The same for the exponent of k, of one way of drafting on one engine and of one pair; and the k at which it turns."""
LOAD, LOAD_AT_ONCE, LOAD_OF_PAIR = 0.3, 1.2, 0.8
"""The same for each doubling of the requests at a time: of all, of methods that draft all k at once (they verify k + 1
tokens of each request for few accepted ones), and of a pair with such a method."""
OCTAVES = 2.0
"""Sizes and tensor parallelism are like each other within so many doublings."""
SETUP = 0.2
"""What a measurement of somebody else's differs by from one here (contexts, versions, clients)."""
BEND, REACH, WALK = 0.05, 4.0, 0.03
"""What one pair does that no power of k describes: a smooth part over REACH values of k, and a random walk of WALK
per k."""
JUMP, SMOOTH = (0.35, 0.25), 0.05
"""From some k on a pair's steps are dearer (a bucket is full, another tiling): mean and standard deviation of the jump
of log extra, and the chance that there is none."""
LEAST = 0.02
"""Least extra: nothing is drafted and verified for nothing, and a measured ratio near 1 has a logarithm."""
AT_ONCE = (Method.DFLASH, Method.MEDUSA)
"""Methods that draft all k tokens in one pass."""

Words = Annotated[str, StringConstraints(min_length=1, max_length=300)]


X = TypeVar("X")
Shape = Callable[[X], float]


class Posterior(NamedTuple):
    """What is believed of some points together."""

    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    evidence: float = 0.0
    """Logarithm of how much likelier the values are than without the shape."""


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
    """A Gaussian process (Rasmussen & Williams 2006, algorithm 2.1): the belief at `at`, given `values` at `seen` with
    standard errors `noise`; prior mean 0. Then the same for each of `shapes`, if a multiple of it is added: `size` has
    the multiple's mean and standard deviation (section 2.7).
    """
    known = [[covariance(x, y) for y in seen] for x in seen]
    for i, error in enumerate(noise):
        known[i][i] += error**2 + 1e-12
    lower = _cholesky(known)
    solved = _forward(lower, values)
    explained = [_forward(lower, [covariance(x, y) for y in seen]) for x in at]
    plain = Posterior(
        tuple(_dot(own, solved) for own in explained),
        tuple(
            tuple(covariance(x, y) - _dot(own, other) for y, other in zip(at, explained, strict=True))
            for x, own in zip(at, explained, strict=True)
        ),
    )
    found, (mean, deviation) = [plain], size
    for shape in shapes:
        shaped = _forward(lower, [*map(shape, seen)])
        certain = 1.0 / deviation**2 + _dot(shaped, shaped)
        multiple = (mean / deviation**2 + _dot(shaped, solved)) / certain
        left = [shape(x) - _dot(own, shaped) for x, own in zip(at, explained, strict=True)]
        found.append(
            Posterior(
                tuple(value + own * multiple for value, own in zip(plain.mean, left, strict=True)),
                tuple(
                    tuple(value + own * other / certain for value, other in zip(row, left, strict=True))
                    for row, own in zip(plain.covariance, left, strict=True)
                ),
                (certain * multiple**2 - (mean / deviation) ** 2 - math.log(certain * deviation**2)) / 2.0,
            )
        )
    return found


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(map(operator.mul, left, right))


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    n = len(matrix)
    lower = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = matrix[i][j] - _dot(lower[i][:j], lower[j])
            lower[i][j] = math.sqrt(rest) if i == j else rest / lower[j][j]
    return lower


def _forward(lower: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    solved: list[float] = []
    for row, value in zip(lower, values, strict=True):
        solved.append((value - _dot(row, solved)) / row[len(solved)])
    return solved


class StepArm(NamedTuple):
    """What decides the cost of a step."""

    engine: str
    method: Method
    target: str
    target_gib: float
    draft: str
    draft_gib: float
    tensor_parallel_size: int
    concurrency: float
    k: int


class StepCost(Frozen):
    """One measured arm. No text of a prompt or an answer is in it."""

    source: Words
    """Where it was published, or the id of the run."""
    engine: Words
    """Kind of engine: `nxd-inference`, `native`, or an engine's name."""
    method: Method
    target: Words
    target_gib: float = Field(gt=0)
    draft: Words
    draft_gib: float = Field(gt=0)
    tensor_parallel_size: int = Field(ge=1)
    concurrency: float = Field(default=1, gt=0)
    """Requests at a time."""
    k: int = Field(ge=1, le=MOST_DRAFTED)
    most_tokens_per_step: MostTokens = MostTokens.K_PLUS_1
    speedup: float = Field(gt=0)
    """Of decoding: time per output token of the baseline over this arm's."""
    tokens_per_step: float | None = Field(default=None, ge=1)
    """None if the source does not say it: then the row only bounds the cost."""
    error: float = Field(default=0.03, gt=0)
    """Relative standard error of the ratio. The card adds SETUP to it, so no row counts as surer than that."""

    @property
    def arm(self) -> StepArm:
        """What decides its cost."""
        return StepArm._make(getattr(self, name) for name in StepArm._fields)

    @property
    def log_extra(self) -> tuple[float, float]:
        """Logarithm of extra, and its standard error. Without tokens per step: anything between what reading the
        draft's weights takes at least and what the most tokens allow, alike on the logarithmic scale.
        """
        if self.tokens_per_step is not None:
            return log_extra(self.tokens_per_step, self.speedup, self.error)
        least = self.k * self.draft_gib / self.target_gib
        most = max((self.most_tokens_per_step.verified(self.k) + 1) / self.speedup - 1.0, 2.0 * least)
        low, high = math.log(max(LEAST, least)), math.log(most)
        return (low + high) / 2.0, (high - low) / math.sqrt(12.0)


def log_extra(tokens_per_step: float, speedup: float, error: float) -> tuple[float, float]:
    """Logarithm of the extra of a measured arm, and its standard error. `error`: relative, of the ratio."""
    ratio = tokens_per_step / speedup
    extra = max(LEAST, ratio - 1.0)
    return math.log(extra), error * ratio / extra


class MeasuredStep(NamedTuple):
    """Log extra of an arm, and its standard error."""

    arm: StepArm
    log_extra: float
    error: float


class Card(NamedTuple):
    """All that is known about step costs."""

    rows: tuple[MeasuredStep, ...] = ()

    def predict(self, arms: Sequence[StepArm]) -> list[tuple[float, float]]:
        """Mean and standard deviation of log extra of each arm, jumps apart."""
        (found,) = self._posterior(arms)
        return [(mean, math.sqrt(max(0.0, found.covariance[at][at]))) for at, mean in enumerate(found.mean)]

    def curves(self, arms: Sequence[StepArm]) -> list[tuple[float, Posterior]]:
        """What log extra of one pair's arms may be, each with its chance: without a jump, or with one at a later k."""
        ks = sorted({arm.k for arm in arms})[1:]
        found = self._posterior(arms, [partial(_jump, arms[0], k) for k in ks])
        chances = [SMOOTH, *[(1.0 - SMOOTH) / len(ks) for _ in ks]] if ks else [1.0]
        most = max(one.evidence for one in found)  # many observations: the evidence alone has no exponential
        likely = [chance * math.exp(one.evidence - most) for chance, one in zip(chances, found, strict=True)]
        return [(each / math.fsum(likely), one) for each, one in zip(likely, found, strict=True)]

    def _posterior(self, arms: Sequence[StepArm], jumps: Sequence[Shape[StepArm]] = ()) -> list[Posterior]:
        found = posterior(
            _covariance,
            at=arms,
            seen=[row.arm for row in self.rows],
            values=[row.log_extra - _mean(row.arm) for row in self.rows],
            noise=[row.error for row in self.rows],
            shapes=jumps,
            size=JUMP,
        )
        return [
            one._replace(mean=tuple(_mean(arm) + mean for arm, mean in zip(arms, one.mean, strict=True)))
            for one in found
        ]


def of_rows(rows: Iterable[StepCost]) -> Card:
    """The card of somebody else's measurements."""
    found = [(row.arm, *row.log_extra) for row in rows]
    return Card(tuple(MeasuredStep(arm, value, math.hypot(error, SETUP)) for arm, value, error in found))


@cache
def published() -> tuple[StepCost, ...]:
    """The evidence that ships."""
    rows = yaml.safe_load((assets_dir() / "evidence" / "step-costs.yaml").read_text())
    return tuple(StepCost.model_validate(row) for row in rows)


def arms(experiment: Experiment) -> dict[str, StepArm]:
    """An arm of the card for every draft, at the experiment's first load and the first k of the draft."""
    found: dict[str, StepArm] = {}
    for variant in experiment.variants:
        if variant.speculation:
            found.setdefault(variant.speculation.draft.id, arm_of(experiment, variant, experiment.workload.levels[0]))
    return found


def arm_of(experiment: Experiment, variant: Variant, level: Level) -> StepArm:
    """What decides the cost of a step of `variant`, which speculates. A rate counts as one request at a time."""
    spec, serving = variant.speculation, experiment.serving_of(variant)
    if spec is None:
        raise ValueError(f"{variant.name} does not speculate")
    target = experiment.target_of(variant)
    return StepArm(
        engine=kind_of_engine(experiment),
        method=spec.method,
        target=target.id,
        target_gib=target.size_gib,
        draft=spec.draft.id,
        draft_gib=spec.draft.size_gib,
        tensor_parallel_size=serving.tensor_parallel_size if serving else 1,
        concurrency=float(level.concurrency or 1),
        k=spec.num_speculative_tokens,
    )


def _mean(arm: StepArm) -> float:
    return math.log(AT_ONE) + GROWTH * math.log(arm.k)


def _jump(pair: StepArm, at: int, arm: StepArm) -> float:
    """1 for arms of the pair with k from `at` on, at any load."""
    return float(arm.k >= at and arm[:-2] == pair[:-2])


@lru_cache(maxsize=2**14)
def _covariance(left: StepArm, right: StepArm) -> float:
    loads = math.log2(left.concurrency) * math.log2(right.concurrency)
    found = COMMON**2 + LOAD**2 * loads
    if left.engine != right.engine:
        return found
    found += OF_ENGINE**2
    at_once = left.method in AT_ONCE
    if at_once != (right.method in AT_ONCE):
        return found
    slopes = math.log(left.k / MIDDLE) * math.log(right.k / MIDDLE)
    found += OF_DRAFTING**2 + SLOPE**2 * slopes + OF_SIZES**2 * _alike(left, right)
    same_pair = (left.target, left.draft) == (right.target, right.draft)
    if same_pair:
        found += OF_PAIR**2 + SLOPE_OF_PAIR**2 * slopes
        found += BEND**2 * math.exp(-((left.k - right.k) ** 2) / (2.0 * REACH**2)) + WALK**2 * min(left.k, right.k)
    if at_once:
        found += (LOAD_AT_ONCE**2 + LOAD_OF_PAIR**2 * same_pair) * loads
    return found


def _alike(left: StepArm, right: StepArm) -> float:
    """1 for models of one size on as many cores, near 0 for very unlike ones."""
    ratios = (
        left.target_gib / right.target_gib,
        left.draft_gib / right.draft_gib,
        left.tensor_parallel_size / right.tensor_parallel_size,
    )
    return math.exp(-sum(math.log2(each) ** 2 for each in ratios) / (2.0 * OCTAVES**2))
