"""The decision of a run: one function, from the figures that plausibility left (ADR 200)."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.over_load import Curve, LoadPoint
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
from specdecode.analysis.statistics.measured import at_fastest, chain_of, lacking
from specdecode.analysis.statistics.verdict import verdict_of
from specdecode.analysis.texts.wording import SHOWN

OF_VERDICT = {
    Verdict.PAYS: Action.USE,
    Verdict.COSTS: Action.KEEP,
    Verdict.NO_DIFFERENCE: Action.KEEP,
    Verdict.CANNOT_TELL: Action.MEASURE,
    Verdict.DISTRUST: Action.DISTRUST,
}


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


def against_root(comparison: Comparison, pair: Pair) -> Pair:
    """The pair's arm against the first baseline of its chain; the pair itself if there is no chain."""
    return total_of(comparison, pair) or pair


def fastest(comparison: Comparison, pairs: Sequence[Pair]) -> Pair:
    """The pair with the largest speed-up over the first baseline, over the cases that all of `pairs` have."""
    whole = [against_root(comparison, pair) for pair in pairs]
    ratios = [
        {case.case: case.headline.ratio for case in pair.cases if case.comparable and case.headline} for pair in whole
    ]
    common = set.intersection(*map(set, ratios))
    gains = [
        prod(own[case] for case in common) if common else pair.over_all for pair, own in zip(whole, ratios, strict=True)
    ]
    return pairs[gains.index(max(gains))]


def worse(comparison: Comparison, of: Pair | ArmFinding) -> str:
    """`is shown to answer worse than base in gsm8k`. Empty if that is not shown."""
    own = (each for each in comparison.accuracy if (each.variant, each.baseline) == (of.variant, of.baseline))
    tasks = dict.fromkeys(each.task for each in own if each.worse)
    more = f" and {len(tasks) - SHOWN} more" if len(tasks) > SHOWN else ""
    return f"is shown to answer worse than {of.baseline} in {', '.join(list(tasks)[:SHOWN])}{more}" if tasks else ""


def found_over_load(comparison: Comparison, curve: Curve) -> dict[str, ArmFinding]:
    """Load -> what the decision has there of the arms of a curve."""
    own, found = (curve.variant, curve.baseline, curve.group), decided(comparison).findings
    return {each.load: each for each in found if (each.variant, each.baseline, each.group) == own}


def curve_of(comparison: Comparison, pair: Pair) -> Curve | None:
    """The pair's curve over the load, over all cases. None for a run of one load."""
    own = pair.variant, pair.baseline, "all"
    return next((each for each in comparison.curve if (each.variant, each.baseline, each.group) == own), None)


def decide(comparison: Comparison) -> Decision:
    """What the run shows, and what to do: of the arms that are to be used, also against the first baseline of their
    chain, the fastest. Arms with an impossible figure are never chosen.
    """
    pairs = comparison.pairs
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
    here = at_fastest(comparison.experiment, comparison.arms, pairs)
    each_way = (*pairs, *(chain.total for chain in comparison.chains))
    known = [finding for pair in each_way for finding in _findings(comparison, pair)]
    known += [_of_case(pair, case, at) for at in loads for pair in at.pairs for case in pair.cases]
    findings = tuple(_unless_worse(comparison, each) for each in known)
    using = [pair for pair in here if not _held_back(comparison, findings, pair)]
    trusted = [each for each in here if not each.distrusted] or here
    asked = using or [each for each in trusted if "speculation" in each.changes] or trusted
    pair = fastest(comparison, asked)
    action, why = _held_back(comparison, findings, pair) or (Action.USE, "")
    serve = {Action.USE: pair.variant, Action.KEEP: against_root(comparison, pair).baseline}.get(action)
    return Decision(
        action=action,
        variant=pair.variant,
        baseline=pair.baseline,
        setting=comparison.experiment.setting_in_words(comparison.experiment.variant(pair.variant)),
        serve=serve,
        why=why,
        findings=findings,
        distrusted=distrusted,
        late=late,
    )


def _held_back(comparison: Comparison, findings: Sequence[ArmFinding], pair: Pair) -> tuple[Action, str] | None:
    """What to do with an arm that is not to be used at the first load, and why. None if it is to be used."""
    first = first_load(comparison)
    found = {(each.variant, each.baseline): each for each in findings if (each.group, each.load) == ("all", first)}
    for each in (pair, against_root(comparison, pair)):
        if (own := found.get((each.variant, each.baseline))) is None:
            return Action.MEASURE, "no prompts could be compared"
        if own.action is not Action.USE:
            why = f"against {own.baseline}, as one would serve it without speculation: {own.why or own.verdict.value}"
            return own.action, own.why if each is pair else why
    if each.baseline != (root := chain_of(comparison.experiment, pair.variant)[0]):
        return Action.MEASURE, f"nothing is known of {pair.variant} against {root}"
    return None


def _unless_worse(comparison: Comparison, found: ArmFinding) -> ArmFinding:
    """An arm that is shown to answer worse than its baseline is not used, however fast it is."""
    if found.action is not Action.USE or not (how := worse(comparison, found)):
        return found
    return found.model_copy(update={"action": Action.KEEP, "why": f"it {how}"})


def first_load(comparison: Comparison) -> str:
    """Name of the first load, which the recommendation is about."""
    return comparison.experiment.workload.levels[0].name


def _findings(comparison: Comparison, pair: Pair) -> Iterator[ArmFinding]:
    first = first_load(comparison)
    lacks = {
        level.name: lacking(at.arms, pair.baseline, pair.variant)
        for level in comparison.experiment.workload.levels
        if (at := comparison.at(level))
    }
    for group in pair.groups:
        if whole := group.group == "all":
            verdict, why = of_all(pair, _at_first(comparison, pair), lacks[first])
        else:
            verdict, why = _kind(pair, group)
        late = any(case.late for case in pair.cases if case.case in group.cases)
        known = pair.among.speedup if whole and pair.among else group.headline
        action = OF_VERDICT.get(verdict) or _mixed(pair, group)
        speedup = None if late else known
        yield _finding(pair, first, verdict, action=action, group=group.group, speedup=speedup, why=why)
    curve = curve_of(comparison, pair)
    for point in curve.points if curve else ():
        if point.level.name != first:
            verdict, why = _at_load(point), ""
            if point.doubtful:
                why = f"the load generator fell behind at {point.level}"
            elif verdict is Verdict.CANNOT_TELL:
                why = "the interval reaches to both sides of 1"
            elif verdict is Verdict.PAYS and point.faster is False:
                verdict, why = Verdict.CANNOT_TELL, "one of so many arms and loads may be faster by chance"
            elif verdict is Verdict.PAYS and (why := lacks.get(point.level.name, "")):
                verdict = Verdict.CANNOT_TELL
            speedup = None if point.doubtful else point.speedup
            yield _finding(pair, point.level.name, verdict, group="all", speedup=speedup, why=why)


def _at_load(point: LoadPoint) -> Verdict:
    """Of the interval at one load, unless the load generator fell behind there."""
    return Verdict.CANNOT_TELL if point.doubtful else verdict_of(point.speedup)


def _of_case(pair: Pair, case: CaseResult, at: LoadResult) -> ArmFinding:
    known = case.comparable and not case.late and case.verdict is not Verdict.DISTRUST
    why = case.reason if case.verdict in (Verdict.CANNOT_TELL, Verdict.DISTRUST) else ""
    gain = case.headline if known else None
    return _finding(pair, at.level.name, case.verdict, group=None, case=case.case, speedup=gain, why=why)


def _finding(pair: Pair, load: str, verdict: Verdict, *, action: Action | None = None, **told: Any) -> ArmFinding:
    action = action or OF_VERDICT[verdict]
    return ArmFinding(variant=pair.variant, baseline=pair.baseline, load=load, verdict=verdict, action=action, **told)


def of_all(pair: Pair, at_first: Verdict | None = None, lacks: str = "") -> tuple[Verdict, str]:
    """Of all prompts together: the verdict, and why it is no surer. `at_first`: that of the curve over the load, at the
    first load. `lacks`: why the arms are not known over all prompts.

    An arm pays if it is faster over them at the level for all arms of the run, by what may be more than RELEVANT, and
    pays on some prompt type by itself.
    """
    verdicts, found = {case.verdict for case in pair.cases}, pair.group("all")
    if pair.distrusted:
        return Verdict.DISTRUST, pair.distrusted
    if found is None or found.headline is None:
        return Verdict.CANNOT_TELL, found.reason if found else "no prompts could be compared"
    together = verdict_of(pair.among.speedup if pair.among else found.headline)
    late = next((case.reason for case in pair.cases if case.late), lacks)
    if together is Verdict.NO_DIFFERENCE and not late:
        return (Verdict.MIXED if {Verdict.PAYS, Verdict.COSTS} <= verdicts else together), ""
    if found.verdict in (Verdict.COSTS, Verdict.NO_DIFFERENCE):
        return found.verdict, ""
    if together is Verdict.COSTS:
        return together, ""
    faster = pair.among.faster if pair.among else found.verdict is Verdict.PAYS
    if late:
        return Verdict.CANNOT_TELL, late
    if faster and Verdict.PAYS in verdicts:
        return (Verdict.PAYS, "") if at_first in (None, Verdict.PAYS) else (Verdict.CANNOT_TELL, UNSURE_LOAD)
    if faster:
        return Verdict.CANNOT_TELL, "together it is faster, and on no prompt type by itself"
    if Verdict.CANNOT_TELL in verdicts:
        return Verdict.CANNOT_TELL, ""
    if Verdict.PAYS in verdicts and Verdict.COSTS not in verdicts:
        return Verdict.CANNOT_TELL, "it pays on some prompt types, and is not shown to be faster over all together"
    return Verdict.MIXED, ""


UNSURE_LOAD = "with the noise that all requests of one load share it is not shown to be faster at the first load"


def _at_first(comparison: Comparison, pair: Pair) -> Verdict | None:
    """Verdict of the curve over the load at the first load. None for a run of one load."""
    curve, first = curve_of(comparison, pair), first_load(comparison)
    return next((_at_load(point) for point in (curve.points if curve else ()) if point.level.name == first), None)


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
