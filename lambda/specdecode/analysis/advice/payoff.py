"""What speculation is expected to yield in an experiment, before a node is rented: from its forecast, or from a guess.

Tokens per step come from the forecast (nearly exact) or are guessed; the time of a step comes from the card of step
costs. So the range of a speed-up is mostly what is not known of the step.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from specdecode.analysis.advice.sweep import candidates, kind, prior_of, variant_of
from specdecode.experiment.base import Frozen
from specdecode.experiment.files import load_engine
from specdecode.experiment.model import Experiment
from specdecode.experiment.problems import ExperimentError
from specdecode.experiment.shapes import HOME
from specdecode.experiment.variants import HEADS
from specdecode.speculation.belief import Candidate, believe
from specdecode.speculation.guess import found_elsewhere, measured_heads
from specdecode.speculation.step_cost import StepCost, arms, published

ALL = "all"
SURE = 1.96
"""Standard deviations of a 95% interval."""
OF_TYPE = 0.1
"""Standard deviation of the logarithm of a speed-up that one type of prompts has beside all types: its steps are longer
or shorter (context, length of answers)."""
WORTHWHILE = 0.97
"""An arm is worth a compile if it is expected within 3% of the best."""
MOST_WORTH = 3
HEAD = "a head reads the target's hidden states, so no answers forecast it; only a run tells"


class Expected(Frozen):
    """A figure and its 95% interval."""

    value: float
    low: float
    high: float


class PayoffAt(Frozen):
    """One arm on one type of prompts."""

    draft: str
    k: int
    variant: str | None
    """The experiment's name of the arm; None if it has none."""
    tokens_per_step: Expected
    speedup: Expected
    """Of decoding, over the arm without speculation."""
    chance: float
    """That decoding is faster than without speculation."""
    dollars_per_million: tuple[float, float] | None
    """Of output tokens: from the engine's usual speed without speculation, for the share of the node's price. None if
    AWS publishes no price, or the engine is not known."""


class PayoffOn(Frozen):
    """All arms on one type of prompts, or a group of types."""

    prompts: str
    forecast: bool
    """Tokens per step are forecast; else guessed."""
    at: tuple[PayoffAt, ...]

    @property
    def best(self) -> PayoffAt:
        """The arm with the best expectation."""
        return max(self.at, key=lambda one: one.speedup.value)


class Payoff(Frozen):
    """The whole answer."""

    experiment: str
    on: tuple[PayoffOn, ...]
    worth_a_compile: tuple[str, ...]
    """Arms, the best first. Empty: none is expected to be faster."""
    found_elsewhere: tuple[str, ...]
    unknown: tuple[str, ...]
    """What a forecast cannot know."""

    @property
    def whole(self) -> PayoffOn:
        """All prompts together."""
        return self.on[-1]


def payoff(experiment: Experiment, own: Iterable[StepCost] = ()) -> Payoff:
    """`own`: rows of the user's own runs. Raises ValueError if no arm of the experiment speculates with one k."""
    at = _with_tokens(experiment, candidates(experiment))
    if not at:
        raise ValueError(f"{experiment.name} has no arm that speculates with one k: there is nothing to forecast")
    own = tuple(own)
    told = {one.case for one in experiment.forecast}
    groups = [("structured", True), ("open-ended", False)]
    kinds = [name for name, is_so in groups if any(case.structured is is_so for case in experiment.workload.cases)]
    names = dict.fromkeys([*(one.case for one in experiment.forecast if one.case != ALL), *kinds, ALL])
    on = tuple(_on(experiment, name, at, own) for name in names)
    return Payoff(
        experiment=experiment.name,
        on=on,
        worth_a_compile=_worth(on[-1].at),
        found_elsewhere=tuple(
            f"{says} ({source})" for says, source in found_elsewhere(arms(experiment), (*published(), *own))
        ),
        unknown=tuple(_unknown(experiment, (*published(), *own), forecast=bool(told))),
    )


def _with_tokens(experiment: Experiment, at: Sequence[Candidate]) -> list[Candidate]:
    """Of a draft that has a forecast, its own k: a guess between them would be a dent in the curve."""
    told = {one.draft: {k for k, _, _ in one.at} for one in experiment.forecast}
    return [one for one in at if one.k in told.get(one.draft, {one.k})]


def payoff_line(found: Payoff) -> str:
    """`sd: 1.9x (1.2 to 2.8) on structured, 1.0x (0.7 to 1.5) on open-ended prompts`, of the arm that is best on all
    prompts.
    """
    best = found.whole.best
    said = []
    for own in found.on:
        if own.prompts in ("structured", "open-ended") or len(found.on) == 1:
            arm = next(one for one in own.at if (one.draft, one.k) == (best.draft, best.k))
            gain = arm.speedup
            said.append(f"{gain.value:.1f}x ({gain.low:.1f} to {gain.high:.1f}) on {own.prompts}")
    name = best.variant or f"{best.draft} k={best.k}"
    return f"{name}: {', '.join(said)} prompts; {percent(best.chance)} chance that it decodes faster on all"


def percent(chance: float) -> str:
    """A chance in words. Nothing that a run has not shown is sure."""
    return "over 99%" if chance > 0.99 else "below 1%" if chance < 0.01 else f"{chance:.0%}"


def _on(experiment: Experiment, name: str, at: Sequence[Candidate], own: Sequence[StepCost]) -> PayoffOn:
    prior, most = prior_of(experiment, name, own), kind(experiment)
    base = _base_dollars(experiment)
    found = []
    for draft in dict.fromkeys(one.draft for one in at):
        ks = [one.k for one in at if one.draft == draft]
        for candidate, (mean, deviation) in believe(draft, ks, (), most=most, prior=prior).items():
            tokens, spread = prior.guess(candidate, most)
            deviation = math.hypot(deviation, 0.0 if name == ALL else OF_TYPE)
            gain = _expected(mean, deviation)
            variant = variant_of(experiment, candidate)
            found.append(
                PayoffAt(
                    draft=draft,
                    k=candidate.k,
                    variant=variant.name if variant else None,
                    tokens_per_step=_expected(tokens, spread, most=most.verified(candidate.k) + 1.0),
                    speedup=gain,
                    chance=0.5 * math.erfc(-mean / deviation / math.sqrt(2.0)),
                    dollars_per_million=(base[0] / gain.high, base[1] / gain.low) if base else None,
                )
            )
    forecast = {one.draft for one in experiment.forecast if name in ("all", "structured", "open-ended", one.case)}
    return PayoffOn(prompts=name, forecast=forecast >= {one.draft for one in at}, at=tuple(found))


def _expected(mean: float, deviation: float, most: float = math.inf) -> Expected:
    low, high = math.exp(mean - SURE * deviation), math.exp(mean + SURE * deviation)
    floor = 1.0 if most < math.inf else 0.0
    return Expected(value=math.exp(mean), low=max(floor, low), high=min(most, high))


def _worth(at: Sequence[PayoffAt]) -> tuple[str, ...]:
    """Arms that are expected to be faster, within 3% of the best; of every draft its best one alone."""
    best = max(one.speedup.value for one in at)
    of_draft = {one.draft: one for one in sorted(at, key=lambda one: one.speedup.value)}
    near = [one for one in of_draft.values() if one.speedup.value >= max(1.0, WORTHWHILE * best)]
    near.sort(key=lambda one: -one.speedup.value)
    return tuple(one.variant or f"{one.draft} k={one.k}" for one in near[:MOST_WORTH])


def _base_dollars(experiment: Experiment) -> tuple[float, float] | None:
    """Dollars for a million output tokens without speculation: what the engine usually takes, for the arm's share."""
    price = experiment.shape.price_in(HOME)
    if experiment.served_by is None or price is None:
        return None
    try:
        low, high = load_engine(experiment.served_by).estimates.seconds_per_output_token
    except ExperimentError:
        return None
    devices = experiment.shape.devices
    share = min(1.0, experiment.devices / devices) if devices and experiment.devices else 1.0
    at_once = min(experiment.workload.levels[0].concurrency or 1, experiment.batch or 1)
    each = price.usd * share / 3600.0 * 1e6 / at_once
    return low * each, high * each


def heads(experiment: Experiment) -> list[str]:
    """Drafts of the experiment that are heads, which no answers forecast."""
    return [draft for draft, arm in arms(experiment).items() if arm.method in HEADS]


def _unknown(experiment: Experiment, rows: Sequence[StepCost], *, forecast: bool) -> Iterator[str]:
    for draft, arm in arms(experiment).items():
        own = sum((row.target, row.draft, row.engine) == (arm.target, draft, arm.engine) for row in rows)
        alike = sum(row.engine == arm.engine for row in rows)
        yield (
            f"what a step with {draft} takes on this engine: {own} of {len(rows)} rows of evidence are of this pair, "
            f"{alike} of the engine"
        )
    if not forecast and arms(experiment).keys() - heads(experiment):
        yield "tokens per step: they are guessed; `specdecode forecast` with answers of the target tells them"
    for draft, found in measured_heads(arms(experiment), rows).items():
        guess = "guessed from what was found elsewhere" if found else "a wide guess, as nothing is known of the pair"
        yield f"tokens per step of {draft}, {guess}: {HEAD}"
    if experiment.workload.temperature:
        yield "what probabilistic verification accepts: the figures are for greedy or strict verification"
    if len(experiment.workload.levels) > 1:
        yield "other loads than the first: a step of more requests costs more for each drafted token"
