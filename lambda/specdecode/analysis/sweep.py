"""The advisor on an experiment's own arms: which to compile or measure next, given what has been measured of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from specdecode.analysis.observing import observation
from specdecode.analysis.result import Comparison
from specdecode.experiment.model import Experiment, Sweep, Variant
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.step import ASSUMED, most_tokens
from specdecode.planning import SweepStep
from specdecode.speculation.advisor import Advice, Candidate, Observation, advise

FEW = 3
"""Fewer values of k than this are no sweep: then every k up to MAX_K is a candidate."""
MAX_K = 15
PRIORS = {"structured": 0.8, "open-ended": 0.5, "all": 0.65}
"""Acceptance before any measurement, by kind of prompts: prose is guessed less often than a list. Published
speed-ups imply 0.35 to 0.9 (tests/specdecode/speculation/test_theory.py)."""


def candidates(experiment: Experiment) -> list[Candidate]:
    """The sweep's arms; for an experiment that is none, its drafts with every k up to MAX_K too. The engine verifies a
    draft or more of each.
    """
    most, found = kind(experiment), dict[str, list[int]]()
    for variant in speculative(experiment):
        if variant.speculation:
            found.setdefault(variant.speculation.draft.id, []).append(variant.speculation.num_speculative_tokens)
    return [
        Candidate(draft, k)
        for draft, ks in found.items()
        for k in (
            sorted(set(ks))
            if len(set(ks)) >= FEW or experiment.sweep is Sweep.ADAPTIVE
            else sorted({*ks, *range(1, MAX_K + 1)})
        )
        if most.verified(k)
    ]


def kind(experiment: Experiment) -> MostTokens:
    """What a step of its engine yields at most; of servers that already run, a step of the first that speculates."""
    return next((most_tokens(experiment, variant) for variant in speculative(experiment)), ASSUMED)


def speculative(experiment: Experiment) -> list[Variant]:
    """The arms that speculate."""
    return [variant for variant in experiment.variants if variant.speculation]


def variant_of(experiment: Experiment, candidate: Candidate) -> Variant | None:
    """The experiment's arm that is `candidate`, if it has one."""
    for variant in speculative(experiment):
        spec = variant.speculation
        if spec and (spec.draft.id, spec.num_speculative_tokens) == candidate:
            return variant
    return None


def observations(comparisons: Sequence[Comparison], *, group: str = "all") -> list[Observation]:
    """What the comparisons measured of arms that differ from their baseline in speculation alone. Of servers of two
    kinds only those of the first one's: the model is of one.
    """
    return [
        found
        for comparison in comparisons
        for pair in comparison.pairs
        if (result := pair.group(group))
        and most_tokens(comparison.experiment, comparison.experiment.variant(pair.variant))
        is kind(comparison.experiment)
        and (found := observation(comparison.experiment.variant(pair.variant), pair, result))
    ]


def advise_sweep(experiment: Experiment, comparisons: Sequence[Comparison] = (), *, group: str = "all") -> Advice:
    """What to compile next of `experiment`, after `comparisons` of it; `group`: structured, open-ended or all."""
    seen = observations(comparisons, group=group)
    return advise(candidates(experiment), seen, most=kind(experiment), prior_a=PRIORS[group])


def advice_sentence(comparison: Comparison) -> str | None:
    """What to try next after this run alone; None where nothing was learned of a known draft."""
    if comparison.experiment.has_endpoints or not observations([comparison]):
        return None
    return advise_sweep(comparison.experiment, [comparison]).reason


def next_step(experiment: Experiment, comparisons: Sequence[Comparison], *, lost: Collection[str] = ()) -> SweepStep:
    """What an adaptive sweep measures next. `comparisons`: one for each measured step, of that step's records alone;
    `lost`: arms that cannot be compiled or served.

    A compile where one is worth it, else again an arm that cannot be told from the best, else nothing.
    """
    seen = observations(comparisons)
    if len(seen) < len(comparisons):
        return SweepStep(arm=None, reason="Stop: what was measured last cannot be compared with its baseline.")
    measured = {Candidate(item.draft, item.k) for item in seen}
    known = {candidate: variant_of(experiment, candidate) for candidate in candidates(experiment)}
    left = [at for at, variant in known.items() if at in measured or (variant and variant.name not in lost)]
    advice = advise(left, seen, most=kind(experiment))
    chosen, reason = advice.compile_next, advice.reason
    again = [at for at in advice.measure_again if (variant := known[at]) and variant.name not in lost]
    if chosen is None and again:
        times = Counter(Candidate(item.draft, item.k) for item in seen)
        chosen = min(again, key=lambda candidate: times[candidate])
        reason = (
            f"Measure {chosen.draft} with k={chosen.k} again, without a compile: it cannot be told from the best yet."
        )
    variant = variant_of(experiment, chosen) if chosen else None
    return SweepStep(arm=variant.name if variant else None, reason=reason)
