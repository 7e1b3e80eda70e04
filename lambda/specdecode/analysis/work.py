"""Results by kind of work: the categories of the measured sets of prompts."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from specdecode.analysis.results.pairs import (
    HEADLINE,
    TEXT_KEPT,
    CaseResult,
    Category,
    CategoryAtLevel,
    LoadResult,
    Pair,
    PromptGain,
    Work,
)
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.statistics.pairs import rounds_beside
from specdecode.experiment.model import Experiment
from specdecode.experiment.prompt_sets import shipped
from specdecode.experiment.workload import TestCase
from specdecode.measures.arm import Measured
from specdecode.measures.distribution import mean
from specdecode.measures.metrics.formulas import acceptance_length, tokens_per_step
from specdecode.prompts import PromptRow, PromptSet

EXTREMES = 3
"""Prompts that are shown at either end."""

Sets = Mapping[str, PromptSet]
"""Key of a set in a run's folder -> the set."""


def work(
    *,
    experiment: Experiment,
    levels: Sequence[AtLevel],
    pairs: Sequence[Pair],
    others: Sequence[LoadResult] = (),
    sets: Sets | None = None,
) -> tuple[Work, ...]:
    """Each pair by category. Empty if the experiment measures no categories. `others`: results at the loads after the
    first. `sets`: sets of prompts, for their texts.
    """
    cases = [case for case in experiment.workload.cases if case.prompts is not None]
    return tuple(
        Work(variant=pair.variant, baseline=pair.baseline, categories=found)
        for pair in pairs
        if (found := _categories(experiment, levels, pair, others, cases, sets or {}))
    )


def _categories(
    experiment: Experiment,
    levels: Sequence[AtLevel],
    pair: Pair,
    others: Sequence[LoadResult],
    cases: Sequence[TestCase],
    sets: Sets,
) -> tuple[Category, ...]:
    own = pair.variant, pair.baseline
    compared = [
        {result.case: result for each in pairs if (each.variant, each.baseline) == own for result in each.cases}
        for pairs in ([pair], *(at.pairs for at in others))
    ]
    found = []
    for case in cases:
        at_levels = tuple(
            _at(at, results[case.name], pair)
            for at, results in zip(levels, compared, strict=True)
            if case.name in results
        )
        if case.name in compared[0]:
            gains = sorted(_gains(experiment, levels[0], pair, case, sets), key=lambda gain: gain.speedup)
            shown = min(EXTREMES, len(gains) // 2)
            found.append(
                Category(
                    case=case.name,
                    prompts=len(gains),
                    levels=at_levels,
                    most=tuple(reversed(gains[len(gains) - shown :])),
                    least=tuple(gains[:shown]),
                )
            )
    return tuple(found)


def _at(at: AtLevel, result: CaseResult, pair: Pair) -> CategoryAtLevel:
    arm = at.arms[pair.variant, result.case].arm
    return CategoryAtLevel(
        level=at.level,
        verdict=result.verdict,
        speedup=result.headline,
        acceptance_length=arm.acceptance_length,
        accepted_per_position=arm.accepted_per_position,
        compared=result.equality.compared,
        identical=result.equality.identical,
    )


def _gains(experiment: Experiment, at: AtLevel, pair: Pair, case: TestCase, sets: Sets) -> Iterable[PromptGain]:
    """Each prompt that both arms completed."""
    base, other = (at.arms[name, case.name] for name in (pair.baseline, pair.variant))
    rounds = rounds_beside(experiment, other)
    before, after = _means(base, HEADLINE, rounds), _means(other, HEADLINE)
    accepted = {} if other.arm.acceptance_length is None else _accepted(other)
    texts = _rows(case, sets)
    for name in sorted(before.keys() & after.keys()):
        text = texts[name].text if name in texts else ""
        yield PromptGain(
            id=name,
            text=text[:TEXT_KEPT],
            characters=len(text),
            speedup=math.exp(max(-300.0, min(300.0, after[name] - before[name]))),
            acceptance_length=accepted.get(name),
        )


def _means(measured: Measured, metric: str, rounds: Collection[int] | None = None) -> dict[str, float]:
    """Id of the prompt -> mean over its requests of ln(metric)."""
    found = _values(measured, metric, rounds)
    return {name: mean([math.log(value) for value in values]) for name, values in found.items()}


def _accepted(measured: Measured) -> dict[str, float]:
    """Id of the prompt -> mean acceptance length over its requests."""
    found = _values(measured, acceptance_length.tag) or _values(measured, tokens_per_step.tag)
    return {name: mean(values) for name, values in found.items()}


def _values(measured: Measured, metric: str, rounds: Collection[int] | None = None) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for record, value in measured.values.get(metric, ()):
        if record.prompt_id is not None and value > 0.0 and (rounds is None or record.round in rounds):
            found[record.prompt_id].append(value)
    return found


def _rows(case: TestCase, sets: Sets) -> dict[str, PromptRow]:
    given = case.prompts
    found = (sets.get(given.key) or shipped(given.set)) if given else None
    if found is None or given is None or found.sha256 != given.sha256:
        return {}
    return {row.id: row for row in found.rows}
