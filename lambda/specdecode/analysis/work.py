"""Results by kind of work: the categories of the measured sets of prompts."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

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
from specdecode.analysis.statistics.pairing import logs_of_both
from specdecode.experiment.model import Experiment
from specdecode.experiment.prompt_sets import shipped
from specdecode.experiment.workload import TestCase
from specdecode.measures.arm import Measured
from specdecode.measures.distribution import mean
from specdecode.measures.metrics.formulas import acceptance_length, tokens_per_step
from specdecode.prompts import PromptSet

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
    found = []
    for pair in pairs:
        own = pair.variant, pair.baseline
        compared = [
            {result.case: result for each in beside if (each.variant, each.baseline) == own for result in each.cases}
            for beside in ([pair], *(at.pairs for at in others))
        ]
        categories = [_category(levels, pair, case, compared, sets or {}) for case in cases if case.name in compared[0]]
        if categories:
            found.append(Work(variant=pair.variant, baseline=pair.baseline, categories=tuple(categories)))
    return tuple(found)


def _category(
    levels: Sequence[AtLevel],
    pair: Pair,
    case: TestCase,
    compared: Sequence[Mapping[str, CaseResult]],
    sets: Sets,
) -> Category:
    gains = sorted(_gains(levels[0], pair, case, sets), key=lambda gain: gain.speedup)
    shown = min(EXTREMES, len(gains) // 2)
    at_levels = [
        _at(at, results[case.name], pair) for at, results in zip(levels, compared, strict=True) if case.name in results
    ]
    return Category(
        case=case.name,
        prompts=len(gains),
        levels=tuple(at_levels),
        most=tuple(reversed(gains[len(gains) - shown :])),
        least=tuple(gains[:shown]),
    )


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


def _gains(at: AtLevel, pair: Pair, case: TestCase, sets: Sets) -> Iterable[PromptGain]:
    """Each prompt that both arms completed."""
    base, other = (at.arms[name, case.name] for name in (pair.baseline, pair.variant))
    gains: dict[str, list[float]] = defaultdict(list)
    before, after = logs_of_both(base, other, HEADLINE)
    for asked, log in before.items():
        if asked.prompt:
            gains[asked.prompt].append(after[asked] - log)
    accepted: dict[str, list[float]] = {}
    if other.arm.acceptance_length is not None:
        accepted = _values(other, acceptance_length.tag) or _values(other, tokens_per_step.tag)
    given = case.prompts
    known = (sets.get(given.key) or shipped(given.set)) if given else None
    rows = known.rows if known and given and known.sha256 == given.sha256 else ()
    texts = {row.id: row.text for row in rows}
    for name, each in sorted(gains.items()):
        text = texts.get(name, "")
        yield PromptGain(
            id=name,
            text=text[:TEXT_KEPT],
            characters=len(text),
            speedup=math.exp(max(-300.0, min(300.0, mean(each)))),
            acceptance_length=mean(accepted[name]) if name in accepted else None,
        )


def _values(measured: Measured, metric: str) -> dict[str, list[float]]:
    """Id of the prompt -> the metric of its requests."""
    found: dict[str, list[float]] = defaultdict(list)
    for record, value in measured.values.get(metric, ()):
        if record.prompt_id is not None and value > 0.0:
            found[record.prompt_id].append(value)
    return found
