"""The decision of a run: one function, from the figures that plausibility left (ADR 200)."""

from collections.abc import Iterator
from typing import Any

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.over_load import Curve
from specdecode.analysis.results.pairs import (
    Action,
    ArmFinding,
    CaseResult,
    Decision,
    GroupResult,
    LoadResult,
    Pair,
    Verdict,
)
from specdecode.analysis.statistics.measured import at_fastest
from specdecode.analysis.texts.by_load import side
from specdecode.analysis.texts.wording import best_pair

OF_VERDICT = {
    Verdict.PAYS: Action.USE,
    Verdict.COSTS: Action.KEEP,
    Verdict.NO_DIFFERENCE: Action.KEEP,
    Verdict.CANNOT_TELL: Action.MEASURE,
    Verdict.DISTRUST: Action.DISTRUST,
}
SIDES = {1: Verdict.PAYS, 0: Verdict.CANNOT_TELL, -1: Verdict.COSTS}


def decided(comparison: Comparison) -> Decision:
    """The decision that a report has, or that one of an older version would have."""
    return comparison.decision or decide(comparison)


def about(comparison: Comparison) -> Pair | None:
    """The pair that the decision is about."""
    name = decided(comparison).variant
    return next((pair for pair in comparison.pairs if pair.variant == name), None)


def total_of(comparison: Comparison, pair: Pair) -> Pair | None:
    """The pair's arm against the first baseline of its chain. None if there is no chain."""
    return next((chain.total for chain in comparison.chains if chain.variant == pair.variant), None)


def curve_of(comparison: Comparison, pair: Pair) -> Curve | None:
    """The pair's curve over the load, over all cases. None for a run of one load."""
    own = pair.variant, pair.baseline, "all"
    return next((each for each in comparison.curve if (each.variant, each.baseline, each.group) == own), None)


def decide(comparison: Comparison) -> Decision:
    """What the run shows, and what to do. Arms with an impossible figure are never chosen."""
    pairs = comparison.pairs
    findings = tuple(finding for pair in pairs for finding in _findings(comparison, pair))
    loads = [found for level in comparison.experiment.workload.levels if (found := comparison.at(level))]
    arms = [(at.level.name, arm) for at in loads for arm in at.arms]
    wrong = {arm.variant: f"{arm.case}: {arm.impossible[0]}" for _, arm in reversed(arms) if arm.impossible}
    distrusted = wrong | {pair.variant: pair.distrusted for pair in pairs if pair.distrusted}
    late = {load: tuple(dict.fromkeys(arm.variant for at, arm in arms if at == load and arm.late)) for load, _ in arms}
    if not pairs:
        action = Action.DISTRUST if wrong else Action.MEASURE
        why = next(iter(wrong.values()), "no two arms completed the same prompts")
        return Decision(
            action=action, variant=None, baseline=None, serve=None, why=why, distrusted=distrusted, late=late
        )
    of_arm = {each.variant: each for each in findings if each.group == "all" and each.load == first_load(comparison)}
    here = at_fastest(comparison.experiment, comparison.arms, pairs)
    using = [pair for pair in here if pair.variant in of_arm and of_arm[pair.variant].action is Action.USE]
    pair = best_pair(using or [each for each in here if not each.distrusted] or here)
    known = of_arm.get(pair.variant)
    action, why = (known.action, known.why) if known else (Action.MEASURE, "no prompts could be compared")
    serve = {Action.USE: pair.variant, Action.KEEP: pair.baseline}.get(action)
    total = total_of(comparison, pair)
    if action is Action.USE and total:
        verdict, unsure = of_all(total)
        if verdict is not Verdict.PAYS:
            action = OF_VERDICT.get(verdict, Action.MEASURE)
            serve = total.baseline if action is Action.KEEP else None
            why = f"against {total.baseline}, as one would serve it without speculation: {unsure or verdict.value}"
    return Decision(
        action=action,
        variant=pair.variant,
        baseline=pair.baseline,
        setting=comparison.experiment.setting_in_words(comparison.experiment.variant(pair.variant)),
        serve=serve,
        why=why,
        findings=(*findings, *(_of_case(pair, case, at) for at in loads for pair in at.pairs for case in pair.cases)),
        distrusted=distrusted,
        late=late,
    )


def first_load(comparison: Comparison) -> str:
    """Name of the first load, which the recommendation is about."""
    return comparison.experiment.workload.levels[0].name


def _findings(comparison: Comparison, pair: Pair) -> Iterator[ArmFinding]:
    first = first_load(comparison)
    for group in pair.groups:
        if whole := group.group == "all":
            verdict, why = of_all(pair, _at_first(comparison, pair))
        else:
            verdict, why = _kind(pair, group)
        late = any(case.late for case in pair.cases if case.case in group.cases)
        gain = pair.among.speedup if whole and pair.among else group.headline
        action = OF_VERDICT.get(verdict) or _mixed(pair, group)
        gain = None if late else gain
        yield _finding(pair, first, verdict, action=action, group=group.group, speedup=gain, why=why)
    curve = curve_of(comparison, pair)
    for point in curve.points if curve else ():
        if point.level.name != first:
            verdict, why = SIDES[side(point)], ""
            if point.doubtful:
                why = f"the load generator fell behind at {point.level}"
            elif verdict is Verdict.CANNOT_TELL:
                why = "the interval reaches to both sides of 1"
            gain = None if point.doubtful else point.speedup
            yield _finding(pair, point.level.name, verdict, group="all", speedup=gain, why=why)


def _of_case(pair: Pair, case: CaseResult, at: LoadResult) -> ArmFinding:
    known = case.comparable and not case.late and case.verdict is not Verdict.DISTRUST
    why = case.reason if case.verdict in (Verdict.CANNOT_TELL, Verdict.DISTRUST) else ""
    gain = case.headline if known else None
    return _finding(pair, at.level.name, case.verdict, group=None, case=case.case, speedup=gain, why=why)


def _finding(pair: Pair, load: str, verdict: Verdict, *, action: Action | None = None, **told: Any) -> ArmFinding:
    action = action or OF_VERDICT[verdict]
    return ArmFinding(variant=pair.variant, baseline=pair.baseline, load=load, verdict=verdict, action=action, **told)


def of_all(pair: Pair, at_first: int | None = None) -> tuple[Verdict, str]:
    """Of all prompts together: the verdict, and why it is no surer. `at_first`: on which side of 1 the curve over the
    load is at the first load.

    An arm pays if it is faster over them at the level for all arms of the run, and pays on some prompt type by itself.
    """
    verdicts, found = {case.verdict for case in pair.cases}, pair.group("all")
    if pair.distrusted:
        return Verdict.DISTRUST, pair.distrusted
    if found is None or found.headline is None:
        return Verdict.CANNOT_TELL, found.reason if found else "no prompts could be compared"
    if found.verdict in (Verdict.COSTS, Verdict.NO_DIFFERENCE):
        return found.verdict, ""
    together = pair.among.speedup if pair.among else found.headline
    if together.high is not None and together.high < 1.0:
        return Verdict.COSTS, ""
    faster = pair.among.faster if pair.among else found.verdict is Verdict.PAYS
    if late := next((case.reason for case in pair.cases if case.late), ""):
        return Verdict.CANNOT_TELL, late
    if faster and Verdict.PAYS in verdicts:
        return (Verdict.PAYS, "") if at_first in (None, 1) else (Verdict.CANNOT_TELL, UNSURE_LOAD)
    if faster:
        return Verdict.CANNOT_TELL, "together it is faster, and on no prompt type by itself"
    if Verdict.CANNOT_TELL in verdicts:
        return Verdict.CANNOT_TELL, ""
    if Verdict.PAYS in verdicts and Verdict.COSTS not in verdicts:
        return Verdict.CANNOT_TELL, "it pays on some prompt types, and is not shown to be faster over all together"
    return Verdict.MIXED, ""


UNSURE_LOAD = "with the noise that all requests of one load share it is not shown to be faster at the first load"


def _at_first(comparison: Comparison, pair: Pair) -> int | None:
    """On which side of 1 the curve over the load is at the first load. None for a run of one load."""
    curve, first = curve_of(comparison, pair), first_load(comparison)
    return next((side(point) for point in (curve.points if curve else ()) if point.level.name == first), None)


def _kind(pair: Pair, found: GroupResult) -> tuple[Verdict, str]:
    """Of a kind of prompts. Its mean alone is no verdict: some type must pay by itself."""
    own = {case.verdict for case in pair.cases if case.case in found.cases}
    if found.verdict is Verdict.PAYS and Verdict.PAYS not in own:
        return Verdict.CANNOT_TELL, "together it is faster, and on no prompt type by itself"
    return found.verdict, found.reason if found.verdict in (Verdict.CANNOT_TELL, Verdict.DISTRUST) else ""


def _mixed(pair: Pair, found: GroupResult) -> Action:
    """Of prompt types that differ."""
    own = {case.verdict for case in pair.cases if case.case in found.cases}
    if Verdict.COSTS in own:
        return Action.KEEP
    return Action.MEASURE if Verdict.CANNOT_TELL in own else Action.USE
