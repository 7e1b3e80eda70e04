"""The advisor for an experiment's own arms: which arm to compile or measure next, given the results so far."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from statistics import geometric_mean

from specdecode.analysis.advice.learned import ALL, observed
from specdecode.analysis.loads.objective import listed
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import Action, kind_of
from specdecode.analysis.statistics.measured import at_fastest
from specdecode.analysis.texts.decide import decided
from specdecode.experiment.model import Experiment, Sweep
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.step import ASSUMED, most_tokens, takes_own_k
from specdecode.experiment.told import Forecasted
from specdecode.experiment.variants import Variant
from specdecode.experiment.workload import Level
from specdecode.planning import SweepStep
from specdecode.speculation.advisor import SURE, LoadsAdvice, advise, advise_over_loads, next_arm
from specdecode.speculation.belief import Candidate, Observation, Prior, tokens_at
from specdecode.speculation.guess import guesses
from specdecode.speculation.step_cost import StepCost, arms, of_rows, published

FEW = 3
"""With fewer values of k than this the experiment is not taken for a sweep, and every k up to MAX_K is a candidate."""
MAX_K = 15
FORECAST = 0.01
"""Relative error of a forecast beside that over prompts: near-ties, and the last step of each answer."""


def candidates(experiment: Experiment) -> list[Candidate]:
    """Arms of the sweep that verify a draft. If the experiment is no sweep: its drafts with every k up to MAX_K too,
    but for heads that take no k other than their own.
    """
    most, found = kind(experiment), dict[str, set[int]]()
    for variant in speculative(experiment):
        if variant.speculation:
            found.setdefault(variant.speculation.draft.id, set()).add(variant.speculation.num_speculative_tokens)
    for draft, arm in arms(experiment).items():
        ks = found.get(draft, set())
        if not takes_own_k(experiment, arm.method) and len(ks) < FEW and experiment.sweep is not Sweep.ADAPTIVE:
            ks |= {*range(1, MAX_K + 1)}
    return [Candidate(draft, k) for draft, ks in found.items() for k in sorted(ks) if most.verified(k)]


def kind(experiment: Experiment) -> MostTokens:
    """Most tokens that a step of the engine yields. For servers that already run: of the first arm that speculates."""
    return next((most_tokens(experiment, variant) for variant in speculative(experiment)), ASSUMED)


def speculative(experiment: Experiment) -> list[Variant]:
    """Arms that speculate with one k."""
    return [
        variant
        for variant in experiment.variants
        if variant.speculation and not variant.speculation.num_speculative_tokens_per_batch_size
    ]


def variant_of(experiment: Experiment, candidate: Candidate) -> Variant | None:
    """The experiment's arm that is `candidate`, if it has one."""
    known = ((variant, variant.speculation) for variant in speculative(experiment))
    return next((v for v, spec in known if spec and (spec.draft.id, spec.num_speculative_tokens) == candidate), None)


def observations(comparisons: Sequence[Comparison], *, group: str = "all") -> dict[Level, list[Observation]]:
    """Observations at each load, of arms that differ from their baseline in speculation alone, at one setting. If
    servers are of two kinds, only those of the first one's kind count.
    """
    found: dict[Level, list[Observation]] = {}
    for comparison in comparisons:
        for pair in at_fastest(comparison.experiment, comparison.arms, comparison.pairs):
            variant = comparison.experiment.variant(pair.variant)
            if most_tokens(comparison.experiment, variant) is kind(comparison.experiment):
                for level, seen in observed(comparison, pair, group):
                    found.setdefault(level, []).append(seen)
    return found


def advise_sweep(
    experiment: Experiment, comparisons: Sequence[Comparison] = (), *, group: str = "all", own: Iterable[StepCost] = ()
) -> LoadsAdvice:
    """What to compile next, given `comparisons`; over several loads for all of them together. `group`: structured,
    open-ended or all. `own`: rows of evidence beside those that ship. An arm that a run's decision distrusts is no
    candidate.
    """
    seen = {level: found for level, found in observations(comparisons, group=group).items() if found}
    wrong = {name for comparison in comparisons for name in decided(comparison).distrusted}
    known = {at: variant_of(experiment, at) for at in candidates(experiment)}
    left = [at for at, variant in known.items() if variant is None or variant.name not in wrong]
    runs = {comparison.run_id for comparison in comparisons}
    others = [row for row in own if row.source not in runs]
    found = _advise(experiment, left, seen, prior=prior_of(experiment, group, others))
    used = next((done.variant for each in comparisons if (done := decided(each)).action is Action.USE), None)
    if used is None or found.together.best or found.together.compile_next:
        return found
    reason = f"Stop: no other arm is expected to decode faster than {used}, which the run decided to use."
    return found._replace(together=found.together._replace(reason=reason))


def prior_of(experiment: Experiment, group: str = ALL, own: Iterable[StepCost] = ()) -> Prior:
    """What is believed before any arm is measured. `group`: structured, open-ended, all, or a case of the forecast,
    which wins over the guess at every k. `own`: as of `advise_sweep`.
    """
    known, rows, most, every = arms(experiment), (*published(), *own), kind(experiment), candidates(experiment)
    card, kinds = of_rows(rows), {case.name: kind_of(case.structured) for case in experiment.workload.cases}
    guessed = {
        name: guesses(every, known, group=name, most=most, card=card, rows=rows)
        for name in {group, ALL, *kinds.values()}
    }
    tokens = guessed[group]
    for at in every:
        told = forecast_of(experiment, at.draft, group)
        if any(told.values()):
            sure = [_forecast(one, at.k, most) for one in told.values() if one]
            left = [guessed[kinds.get(case, ALL)][at] for case, one in told.items() if one is None]
            error = math.hypot(*(each for _, each in sure), math.fsum(each for _, each in left)) / len(told)
            mean = geometric_mean(each for each, _ in (*sure, *left))
            tokens[at] = mean, math.hypot(FORECAST, error)
    return Prior(tokens, card, known)


def forecast_of(experiment: Experiment, draft: str, group: str = ALL) -> dict[str, Forecasted | None]:
    """The draft's forecast on each type of prompts of a group; None where there is a guess alone. A forecast of none of
    the experiment's types stands for all of them together.
    """
    most, own = kind(experiment), [one for one in experiment.forecast if one.draft == draft]
    told = {one.case: one for one in own if any(most.verified(k) for k, _, _ in one.at)}
    kinds = {case.name: kind_of(case.structured) for case in experiment.workload.cases}
    if group == ALL and told and told.keys().isdisjoint(kinds):
        return {**told}
    return {case: told.get(case) for case in kinds if group in (ALL, kinds[case])} or {group: told.get(group)}


def _forecast(one: Forecasted, k: int, most: MostTokens) -> tuple[float, float]:
    """Tokens per step at k, and their relative standard error: the nearest forecast k's, and more for being away."""
    known = {at: (each, error) for at, each, error in one.at if most.verified(at)}
    tokens, away = tokens_at({at: each for at, (each, _) in known.items()}, k, most)
    _, error = known[min(known, key=lambda at: abs(math.log(k / at)))]
    return tokens, math.hypot(error, away)


def _advise(
    experiment: Experiment, left: Sequence[Candidate], seen: Mapping[Level, Sequence[Observation]], *, prior: Prior
) -> LoadsAdvice:
    if len(experiment.workload.levels) > 1 and seen:
        return advise_over_loads(left, seen, most=kind(experiment), prior=prior)
    own = [item for found in seen.values() for item in found]
    return LoadsAdvice(advise(left, own, most=kind(experiment), prior=prior), ())


def advice_sentence(comparison: Comparison) -> str | None:
    """What to try next after this run alone. None if the run shows nothing about a known draft, or nothing for sure."""
    sure = decided(comparison).action in (Action.USE, Action.KEEP)
    if not sure or not comparison.experiment.holds_node or not observations([comparison]):
        return None
    return advise_sweep(comparison.experiment, [comparison]).together.reason


def k_by_load(found: LoadsAdvice) -> str:
    """`Best measured by load: k=7 (draft) at 1, 2 at a time; no speculation at 16 at a time.`. Empty for one load."""
    said = [
        f"{f'k={best.k} ({best.draft})' if best else 'no speculation'} at {listed([level for level, _ in own])}"
        for best, own in groupby(found.levels, key=lambda at: at[1].best)
    ]
    return f"Best measured by load: {'; '.join(said)}." if said else ""


def first_steps(experiment: Experiment) -> tuple[SweepStep, ...]:
    """What an adaptive sweep begins with, as a plan wants it; nothing for any other experiment."""
    return (next_step(experiment, ()),) if experiment.sweep is Sweep.ADAPTIVE else ()


def next_step(experiment: Experiment, comparisons: Sequence[Comparison], *, lost: Collection[str] = ()) -> SweepStep:
    """What an adaptive sweep measures next. `comparisons`: one for each measured step, of that step's records alone;
    `lost`: arms that cannot be compiled or served. The first that applies: compile a new arm, if that is worth its cost
    and the compiled ones are known well; measure one again that is not, or that cannot be told from the best; nothing.
    """
    if not all(observations([comparison]) for comparison in comparisons):
        return SweepStep(arm=None, reason="Stop: what was measured last cannot be compared with its baseline.")
    seen = {level: found for level, found in observations(comparisons).items() if found}
    times = Counter(Candidate(item.draft, item.k) for found in seen.values() for item in found)
    known = {candidate: variant_of(experiment, candidate) for candidate in candidates(experiment)}
    left = [at for at, variant in known.items() if at in times or (variant and variant.name not in lost)]
    advice = _advise(experiment, left, seen, prior=prior_of(experiment)).together
    there = {at for at in times if (own := known[at]) and own.name not in lost}
    chosen = next_arm(
        advice._replace(measure_again=tuple(at for at in advice.measure_again if at in there)),
        [item for found in seen.values() for item in found if (item.draft, item.k) in there],
    )
    reason = advice.reason
    if chosen and chosen in times:
        why = f"its speed-up is known to {SURE:.0%} before the next compile"
        why = why if advice.compile_next else "it cannot be told from the best yet"
        reason = f"Measure {chosen.draft} with k={chosen.k} again, without a compile: {why}."
    variant = variant_of(experiment, chosen) if chosen else None
    return SweepStep(arm=variant.name if variant else None, reason=reason)
