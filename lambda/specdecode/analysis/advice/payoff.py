"""What speculation is expected to yield in an experiment, before a node is rented: from its forecast, or from a guess.

Tokens per step come from the forecast (nearly exact) or are guessed; the time of a step comes from the card of step
costs. So the range of a speed-up is mostly what is not known of the step. After a run: how far off the forecast was.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from specdecode.analysis.advice.learned import ALL, DECODING
from specdecode.analysis.advice.sweep import candidates, forecast_of, kind, prior_of, variant_of
from specdecode.analysis.results.numbers import times
from specdecode.analysis.results.pairs import Pair, kind_of
from specdecode.escape import counted
from specdecode.experiment.base import Frozen
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.files import load_engine
from specdecode.experiment.model import Experiment
from specdecode.experiment.problems import ExperimentError
from specdecode.experiment.variants import HEADS
from specdecode.measures.arm_case import ArmCase
from specdecode.speculation.belief import Candidate, believe
from specdecode.speculation.guess import found_elsewhere, measured_heads
from specdecode.speculation.step_cost import StepCost, arms, published

SURE = 1.96
"""Standard deviations of a 95% interval."""
OF_TYPE = 0.1
"""Standard deviation of the logarithm of a speed-up that one type of prompts has beside all types."""
WORTHWHILE = 0.97
"""An arm is worth a compile if it is expected within 3% of the best."""
MOST_WORTH = 3
KINDS = ("structured", "open-ended")
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
    """Of output tokens, by the engine's usual speed without speculation, for the arm's share of the node. None if
    unknown."""

    @property
    def name(self) -> str:
        """The experiment's name, or what the arm would be."""
        return self.variant or f"{self.draft} k={self.k}"


class PayoffOn(Frozen):
    """All arms on one type of prompts, or a group of types."""

    prompts: str
    forecast: bool
    """Tokens per step of every draft are forecast on each of these prompts; else some are guessed."""
    at: tuple[PayoffAt, ...]

    @property
    def best(self) -> PayoffAt:
        """The arm with the best expectation."""
        return max(self.at, key=lambda one: one.speedup.value)


class Payoff(Frozen):
    """Which arms are worth a compile: on each kind of prompts, and on all together."""

    experiment: str
    on: tuple[PayoffOn, ...]
    worth_a_compile: tuple[str, ...]
    """Arms, the best first. Empty: none is expected to be faster."""
    found_elsewhere: tuple[str, ...]
    unknown: tuple[str, ...]
    """What a forecast cannot know."""

    @property
    def whole(self) -> PayoffOn:
        """What holds for all prompts together: the last of `on`."""
        return self.on[-1]


def payoff(experiment: Experiment, own: Iterable[StepCost] = (), capacity: Capacity | None = None) -> Payoff:
    """`own`: rows of the user's own runs. `capacity`: what the node costs; without it AWS's list price.

    Raises ValueError if no arm of the experiment speculates with one k.
    """
    if not (at := candidates(experiment)):
        raise ValueError(f"{experiment.name} has no arm that speculates with one k: there is nothing to forecast")
    own, dollars = tuple(own), _base_dollars(experiment, capacity or Capacity())
    rows = (*published(), *own)
    told = [one.case for one in experiment.forecast]
    kinds = {case.name: kind_of(case.structured) for case in experiment.workload.cases}
    # A forecast of none of the experiment's types says nothing of their kinds, and a guess would not add up to it.
    apart = [name for name in KINDS if name in kinds.values() and not (told and kinds.keys().isdisjoint(told))]
    names = dict.fromkeys([*(case for case in told if case != ALL), *apart, ALL])
    on = tuple(_on(experiment, name, at, own, dollars) for name in names)
    return Payoff(
        experiment=experiment.name,
        on=on,
        worth_a_compile=_worth(on[-1].at),
        found_elsewhere=tuple(f"{says} ({source})" for says, source in found_elsewhere(arms(experiment), rows)),
        unknown=tuple(_unknown(experiment, rows)),
    )


def payoff_line(found: Payoff) -> str:
    """`sd: 1.9x (1.2 to 2.8) on structured, 1.0x (0.7 to 1.5) on open-ended prompts`, of the best arm on them all."""
    best = found.whole.best
    kinds = [own for own in found.on if own.prompts in KINDS] or [found.whole]
    said = [
        f"{one.speedup.value:.1f}x ({one.speedup.low:.1f} to {one.speedup.high:.1f}) on {own.prompts}"
        for own in kinds
        for one in own.at
        if one.name == best.name
    ]
    return f"{best.name}: {', '.join(said)} prompts; {percent(best.chance)} chance that it decodes faster on all"


def percent(chance: float) -> str:
    """A chance in words. Nothing that a run has not shown is sure."""
    return "over 99%" if chance > 0.99 else "below 1%" if chance < 0.01 else f"{chance:.0%}"


def _on(
    experiment: Experiment,
    name: str,
    at: Sequence[Candidate],
    own: Sequence[StepCost],
    base: tuple[float, float] | None,
) -> PayoffOn:
    prior, most = prior_of(experiment, name, own), kind(experiment)
    drafts, found = dict.fromkeys(one.draft for one in at), []
    for draft in drafts:
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
                    tokens_per_step=_expected(tokens, spread, least=1.0, most=most.verified(candidate.k) + 1.0),
                    speedup=gain,
                    chance=0.5 * math.erfc(-mean / deviation / math.sqrt(2.0)),
                    dollars_per_million=(base[0] / gain.high, base[1] / gain.low) if base else None,
                )
            )
    forecast = all(one for draft in drafts for one in forecast_of(experiment, draft, name).values())
    return PayoffOn(prompts=name, forecast=forecast, at=tuple(found))


def _expected(mean: float, deviation: float, *, least: float = 0.0, most: float = math.inf) -> Expected:
    low, high = math.exp(mean - SURE * deviation), math.exp(mean + SURE * deviation)
    return Expected(value=math.exp(mean), low=max(least, low), high=min(most, high))


def _worth(at: Sequence[PayoffAt]) -> tuple[str, ...]:
    """Arms that are expected to be faster, within 3% of the best; of every draft its best one alone."""
    ordered = sorted(at, key=lambda one: one.speedup.value)
    near = sorted({one.draft: one for one in ordered}.values(), key=lambda one: -one.speedup.value)
    enough = max(1.0, WORTHWHILE * ordered[-1].speedup.value)
    return tuple(one.name for one in near[:MOST_WORTH] if one.speedup.value >= enough)


def _base_dollars(experiment: Experiment, capacity: Capacity) -> tuple[float, float] | None:
    """Dollars for a million output tokens without speculation: what the engine usually takes, for the arm's share."""
    price = capacity.of(experiment.node).price_per_node_hour
    if experiment.served_by is None or price is None:
        return None
    try:
        low, high = load_engine(experiment.served_by).estimates.seconds_per_output_token
    except ExperimentError:
        return None
    devices = experiment.shape.devices
    share = min(1.0, experiment.devices / devices) if devices and experiment.devices else 1.0
    at_once = min(experiment.workload.levels[0].concurrency or 1, experiment.batch or 1)
    each = price * share / 3600.0 * 1e6 / at_once
    return low * each, high * each


def heads(experiment: Experiment) -> list[str]:
    """Drafts of the experiment that are heads, which no answers forecast."""
    return [draft for draft, arm in arms(experiment).items() if arm.method in HEADS]


def _unknown(experiment: Experiment, rows: Sequence[StepCost]) -> Iterator[str]:
    for draft, arm in arms(experiment).items():
        own = sum((row.target, row.draft, row.engine) == (arm.target, draft, arm.engine) for row in rows)
        alike = sum(row.engine == arm.engine for row in rows)
        yield (
            f"what a step with {draft} takes on this engine: {own} of {len(rows)} rows of evidence are of this pair, "
            f"{alike} of the engine"
        )
    for draft, arm in arms(experiment).items():
        left = [case for case, one in forecast_of(experiment, draft).items() if one is None]
        if left and arm.method not in HEADS:
            where = f"of {draft} on {', '.join(left)}"
            yield f"tokens per step {where}: guessed; `specdecode forecast` with answers of the target tells them"
    for draft, found in measured_heads(arms(experiment), rows).items():
        guess = "guessed from what was found elsewhere" if found else "a wide guess, as nothing is known of the pair"
        yield f"tokens per step of {draft}, {guess}: {HEAD}"
    if experiment.workload.temperature:
        yield "what probabilistic verification accepts: the figures are for greedy or strict verification"
    if len(experiment.workload.levels) > 1:
        yield "other loads than the first: a step of more requests costs more for each drafted token"


class Beside(NamedTuple):
    """Tokens per step of one arm on one type of prompts."""

    variant: str
    draft: str
    k: int
    case: str
    told: float
    measured: float

    @property
    def off(self) -> float:
        """How far the forecast is from what was measured, as a share of that."""
        return abs(self.told / self.measured - 1.0)


def beside(experiment: Experiment, pairs: Sequence[Pair], arms: Iterable[ArmCase]) -> list[Beside]:
    """Every forecast that an arm has measured: its mean over all steps. Empty if the experiment has none."""
    found: list[Beside] = []
    steps = {(arm.variant, arm.case): sum(one.tokens * one.share for one in arm.steps) for arm in arms if arm.steps}
    told = {(one.draft, k, one.case): tokens for one in experiment.forecast for k, tokens, _ in one.at}
    for pair in pairs:
        spec = experiment.variant(pair.variant).speculation
        if spec and pair.changes == ("speculation",):
            arm = pair.variant, spec.draft.id, spec.num_speculative_tokens
            found += [
                Beside(*arm, case.case, told[*arm[1:], case.case], mean)
                for case in pair.cases
                if (*arm[1:], case.case) in told and (mean := steps.get((pair.variant, case.case)))
            ]
    return found


def forecast_notes(experiment: Experiment, pairs: Sequence[Pair], arms: Iterable[ArmCase]) -> list[str]:
    """A note for each measured arm that has a forecast: tokens per step, and the speed-up on all prompts."""
    both, found = beside(experiment, pairs, arms), []
    told = {one.variant: one.speedup for one in payoff(experiment).whole.at} if both else {}
    for pair in pairs:
        if not (own := [one for one in both if one.variant == pair.variant]):
            continue
        worst = max(own, key=lambda one: one.off)
        note = (
            f"Forecast of {pair.variant}: tokens per step at most {worst.off:.1%} off, over "
            f"{counted(len(own), 'type')} of prompts (most in {worst.case}: {worst.told:.2f}, "
            f"measured {worst.measured:.2f})."
        )
        speedups = result.speedups if (result := pair.group(ALL)) else ()
        measured = next((one.ratio for one in speedups if one.metric == DECODING), None)
        if measured is not None and (gain := told.get(pair.variant)):
            note += (
                f" Decoding on all prompts {times(gain.value)} ({times(gain.low)} to {times(gain.high)}), measured "
                f"{times(measured)}: {'within' if gain.low <= measured <= gain.high else 'outside'} the range."
            )
        found.append(note)
    return found
